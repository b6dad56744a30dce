#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "trace/base/enum_count.h"
#include "trace/base/process.h"
#include "trace/base/sane_time.h"
#include "trace/base/signed_text.h"
#include "trace/base/text.h"
#include "trace/base/token_rate.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"

namespace shardscope {
namespace {

enum class OneValue : uint8_t { kOnly };
struct Holder {
  enum class Inner : int32_t { kFirst, kMiddle, kLast };
};
static_assert(kCountOf<OneValue> == 1);
static_assert(kCountOf<Holder::Inner> == 3);

TEST(Units, DurationsHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(FormatDuration(0), "0 ns");
  EXPECT_EQ(FormatDuration(999), "999 ns");
  EXPECT_EQ(FormatDuration(14'000'000), "14.0 ms");
  EXPECT_EQ(FormatDuration(999'999), "1.00 ms");
  EXPECT_EQ(FormatDuration(-28'000'000), "-28.0 ms");
  EXPECT_EQ(FormatDuration(75'000'000'000), "75.0 s");
  EXPECT_EQ(FormatDuration(998.5), "999 ns");
  EXPECT_EQ(FormatDuration(998.4), "998 ns");
  EXPECT_EQ(FormatDuration(-0.6), "-1 ns");
  EXPECT_EQ(FormatDuration(14e6), "14.0 ms");
}

TEST(Units, BytesAreDecimal) {
  EXPECT_EQ(FormatBytes(48'500'000), "48.5 MB");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBandwidth(5e8), "500 MB/s");
}

TEST(Units, DifferencesHaveTheirSign) {
  EXPECT_EQ(SignedText(14e6, FormatDuration), "+14.0 ms");
  EXPECT_EQ(SignedText(-28e6, FormatDuration), "-28.0 ms");
  EXPECT_EQ(SignedText(-0.4, FormatDuration), "-0 ns");
  EXPECT_EQ(SignedText(0, FormatBytes), "0 B");
  EXPECT_EQ(SignedText(0, FormatBytes, "±"), "±0 B");
}

TEST(Units, ParsersRoundTripAndRefuse) {
  EXPECT_EQ(ParseDuration("20us"), 20'000);
  EXPECT_EQ(ParseDuration("1.5 ms"), 1'500'000);
  EXPECT_EQ(ParseDuration("29.0 \xC2\xB5s"), 29'000);  // as the app writes it
  EXPECT_EQ(ParseDuration(" 29\xCE\xBCs "), 29'000);
  EXPECT_FALSE(ParseDuration("\xC2\xB5s"));
  EXPECT_EQ(ParseDuration("0"), 0);
  EXPECT_FALSE(ParseDuration("20"));
  EXPECT_FALSE(ParseDuration("-1ms"));
  EXPECT_FALSE(ParseDuration("fast"));
  EXPECT_EQ(ParseBandwidth("1GB/s"), 1e9);
  EXPECT_EQ(ParseBandwidth("250MB/s"), 2.5e8);
  EXPECT_FALSE(ParseBandwidth("1GB"));
  EXPECT_FALSE(ParseBandwidth("0GB/s"));
  EXPECT_EQ(ParseBytes("64MB"), 64'000'000);
}

TEST(Text, NearestNameFindsTyposOnly) {
  const std::vector<std::string> names = {"prefetch.backward", "prefetch.forward", "link.latency"};
  EXPECT_EQ(NearestName("prefetch.bakward", names), "prefetch.backward");
  EXPECT_EQ(NearestName("link.latencey", names), "link.latency");
  EXPECT_FALSE(NearestName("zzz", names));
}

TEST(Text, MeantNameTakesWhatIsTypedAsABeginningOrAPartFirst) {
  const std::vector<std::string> names = {"AG block1", "B block1.attention", "B block10.mlp",
                                          "B block1.mlp"};
  EXPECT_EQ(MeantName("B block1", names), "B block1.mlp");
  EXPECT_EQ(MeantName("attention", names), "B block1.attention");
  EXPECT_EQ(MeantName("AG blok1", names), "AG block1");
  EXPECT_FALSE(MeantName("zzz", names));
  EXPECT_FALSE(MeantName("", names));
}

TEST(Text, WhatAPatternIsFilledInWithIsFound) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(FilledIn("GPU {} has {} free", "GPU 0 has 1 GB free, no more"),
            (Parts{"0", "1 GB", ", no more"}));
  EXPECT_EQ(FilledIn("GPU {}{};", "GPU ;"), (Parts{"", "", ""}));
  EXPECT_EQ(FilledIn("all", "all of it"), Parts{" of it"});
  EXPECT_FALSE(FilledIn("GPU {} has {} free", "GPU 0 has 1 GB"));
  EXPECT_FALSE(FilledIn("GPU {}", "a GPU 0"));
}

TEST(Text, FirstLineEndsBeforeTheBreak) {
  EXPECT_EQ(FirstLine("why\nwhere\n"), "why");
  EXPECT_EQ(FirstLine("why"), "why");
  EXPECT_EQ(FirstLine("\nwhere"), "");
  EXPECT_EQ(FirstLine(""), "");
}

TEST(Utf8, PlainTextOnly) {
  for (const char* text : {"", "abc", "\xc3\xa9", "\xe4\xb8\xad\xe6\x96\x87", "\xf0\x9f\x99\x82"})
    EXPECT_TRUE(IsPlainUtf8(text)) << text;
  for (const char* text : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
                           "\xe4\xb8", "a\nb", "\x7f", "\xc2\x85", "\xe0\x80\x80", "\xc3\x29"})
    EXPECT_FALSE(IsPlainUtf8(text)) << text;
}

TEST(Terminal, ChineseTakesTwoColumns) {
  EXPECT_EQ(TerminalWidth(""), 0u);
  EXPECT_EQ(TerminalWidth("all-gather"), 10u);
  EXPECT_EQ(TerminalWidth("\u524d\u5411 1"), 6u);
  EXPECT_EQ(TerminalWidth("\u00b5s \u2192"), 4u);
}

TEST(Terminal, WhatWouldSteerItIsNotPrinted) {
  EXPECT_EQ(Printable("a\x1b[31mb\nc\xff"), "a [31mb c?");
  EXPECT_EQ(Printable("a\x1b\nb\tc", "\n\t"), "a \nb\tc");
  EXPECT_EQ(Printable("\u524d\u5411"), "\u524d\u5411");
}

TEST(Terminal, ShorteningCutsNoCharacter) {
  EXPECT_EQ(Shortened("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(Shortened("abcdefghi", 8), "abcde...");
  // Four characters are eight columns: one fits before the dots, and half of the next does not.
  EXPECT_EQ(Shortened("\u524d\u5411\u8ba1\u7b97", 8), "\u524d\u5411\u8ba1\u7b97");
  EXPECT_EQ(Shortened("\u524d\u5411\u8ba1\u7b97", 6), "\u524d...");
}

TEST(SaneTime, LiesBetweenNoughtAndTheLatest) {
  EXPECT_FALSE(IsSaneNs(-1));
  EXPECT_FALSE(IsSaneNs(0));
  EXPECT_TRUE(IsSaneNs(1));
  EXPECT_TRUE(IsSaneNs(kLatestSaneNs - 1));
  EXPECT_FALSE(IsSaneNs(kLatestSaneNs));
}

TEST(TraceKeys, WhatIsImportedIsOfARank) {
  EXPECT_EQ(trace_keys::ImportedKey(12, trace_keys::kBaseNs), "imported.rank12.base_ns");
  EXPECT_TRUE(trace_keys::ImportedKey(3, "any").starts_with(trace_keys::kImportedRankPrefix));
}

TEST(TokenRate, IsOfASecondAndNoneOfAStepWithoutTime) {
  EXPECT_DOUBLE_EQ(TokensPerSecond(512, 100), 512 / 100e-9);
  EXPECT_EQ(TokensPerSecond(3e6, 1.5e9), 2e6);
  EXPECT_EQ(TokensPerSecond(0, 100), 0);
  EXPECT_EQ(TokensPerSecond(512, 0), 0);
}

TEST(Heap, LargeBlocksAreMappingsHoweverManyWereFreed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has an allocator of its own";
#endif
  ASSERT_TRUE(ReturnLargeBlocks());
  constexpr size_t kLarge = size_t{16} << 20;
  const size_t before = mallinfo2().hblkhd;
  for (const size_t bytes : {kLarge, kLarge / 8}) {
    const std::vector<char> block(bytes, 'x');
    EXPECT_GE(mallinfo2().hblkhd, before + block.size()) << block.back();
  }
  EXPECT_EQ(mallinfo2().hblkhd, before);
}

TEST(Utf8, CodePointsAreTakenOneByOne) {
  std::string_view text = "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82\xc3";
  for (const char32_t point : {U'a', U'\u00e9', U'\u4e2d', U'\U0001F642'}) {
    EXPECT_EQ(TakeCodePoint(&text), point);
  }
  EXPECT_EQ(TakeCodePoint(&text), std::nullopt);
  EXPECT_EQ(text, "\xc3");
}

}  // namespace
}  // namespace shardscope
