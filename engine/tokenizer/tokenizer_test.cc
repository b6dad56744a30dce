#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/tokenizer/chat_template.h"

namespace shardscope::tokenizer {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

// The character that stands for a byte, by the inverse of BytesOfWritten().
std::string WrittenOf(unsigned char byte) {
  for (unsigned point = 0x21; point < 0x144; ++point) {
    std::string written;
    if (point < 0x80) {
      written = {static_cast<char>(point)};
    } else {
      written = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    }
    if (BytesOfWritten(written) == std::string(1, static_cast<char>(byte))) return written;
  }
  return "";
}

// Ids 0 to 255 are the bytes; then one for each merge; then <|end|> and [X].
Json SmallTokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {
                        {"a", "b"}, {"ab", "c"}, {"b", "c"}, {"\u0120", "a"}}) {
  Json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[WrittenOf(static_cast<unsigned char>(byte))] = byte;
  }
  Json list = Json::array();
  int next = 256;
  for (const auto& [left, right] : merges) {
    vocabulary[left + right] = next++;
    list.push_back({left, right});
  }
  return {{"added_tokens",
           {{{"id", next}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}},
            {{"id", next + 1}, {"content", "[X]"}, {"special", false}, {"lstrip", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}}};
}

Result<std::shared_ptr<const Tokenizer>> Parse(const Json& json, const std::string& config = "") {
  return Tokenizer::Parse({.tokenizer = json.dump(), .config = config, .chat_template = ""});
}

std::string ErrorOf(const Json& json, const std::string& config = "") {
  const auto tokenizer = Parse(json, config);
  return tokenizer.ok() ? "none" : tokenizer.message();
}

Ids Encoded(const Json& json, std::string_view text) {
  const auto tokenizer = Parse(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
  Ids ids;
  EXPECT_TRUE(Encoder(*tokenizer).EncodeWhole(text, &ids).ok());
  return ids;
}

TEST(BytesOfWrittenTest, EveryByteHasOneCharacter) {
  for (int byte = 0; byte < 256; ++byte) EXPECT_NE(WrittenOf(static_cast<unsigned char>(byte)), "");
  EXPECT_EQ(BytesOfWritten("\u0120a\u010a"), " a\n");
  EXPECT_FALSE(BytesOfWritten("a b"));
  EXPECT_FALSE(BytesOfWritten("\xff"));
}

TEST(EncoderTest, MergesTheEarliestRankFirstAndFromTheLeft) {
  const Json json = SmallTokenizer();
  EXPECT_EQ(Encoded(json, "abc"), (Ids{257}));
  EXPECT_EQ(Encoded(json, "bcab"), (Ids{258, 256}));
  EXPECT_EQ(Encoded(json, "ababc"), (Ids{256, 257}));
  EXPECT_EQ(Encoded(json, " ab"), (Ids{32, 256}));  // a b comes before the space and a
  EXPECT_EQ(Encoded(json, ""), Ids{});
}

TEST(EncoderTest, AWordThatComesAgainGivesTheSameIdsAlsoWhenTheCacheIsFull) {
  const auto tokenizer = Parse(SmallTokenizer());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  Encoder kept(*tokenizer);
  std::string text;
  for (int i = 0; i < 50000; ++i) text += " abc" + std::to_string(i);  // more words than it keeps
  Ids once;
  Ids twice;
  ASSERT_TRUE(kept.Encode(text, &once).ok());
  ASSERT_TRUE(kept.Encode(text, &twice).ok());
  EXPECT_EQ(once, twice);
  EXPECT_EQ((*tokenizer)->Decode(once, true), text);
}

TEST(EncoderTest, LongWordsTakeNoMoreThanTheirLength) {
  const std::string text(size_t{1} << 20, 'a');
  EXPECT_EQ(Encoded(SmallTokenizer({{"a", "a"}, {"aa", "aa"}}), text).size(), text.size() / 4);
  EXPECT_EQ(Encoded(SmallTokenizer(), std::string(size_t{1} << 20, ' ')).size(), size_t{1} << 20);
}

TEST(EncoderTest, AddedTokensAreFoundInTheTextAndTakeTheirSpaces) {
  EXPECT_EQ(Encoded(SmallTokenizer(), "a<|end|>b"), (Ids{'a', 260, 'b'}));
  EXPECT_EQ(Encoded(SmallTokenizer(), "a \n[X] b"), (Ids{'a', 261, ' ', 'b'}));
  EXPECT_EQ(Encoded(SmallTokenizer(), "<|en"), (Ids{'<', '|', 'e', 'n'}));
}

TEST(EncoderTest, TemplatesPutTokensAroundAText) {
  Json json = SmallTokenizer();
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single",
                             {{{"SpecialToken", {{"id", "s"}}}},
                              {{"Sequence", {{"id", "A"}}}},
                              {{"SpecialToken", {{"id", "s"}}}}}},
                            {"special_tokens", {{"s", {{"ids", {260}}}}}}};
  EXPECT_EQ(Encoded(json, "abc"), (Ids{260, 257, 260}));
  Ids beginning;
  EXPECT_TRUE(Encoder(*Parse(json)).EncodeBeginning("abc", &beginning).ok());
  EXPECT_EQ(beginning, (Ids{260, 257}));
  json["post_processor"]["special_tokens"]["s"]["ids"] = {262};
  EXPECT_NE(ErrorOf(json).find("no token's"), std::string::npos);
}

TEST(EncoderTest, TextThatIsNoUtf8IsAnErrorWithItsPlace) {
  const auto tokenizer = Parse(SmallTokenizer());
  Ids ids;
  const Status status = Encoder(*tokenizer).Encode("abc\xff", &ids);
  EXPECT_EQ(status.message(), "the text is no UTF-8 at byte 3");
}

std::vector<Extent> Extents(const Json& json, std::string_view text, const Ids& expected) {
  const auto tokenizer = Parse(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
  Encoder encoder(*tokenizer);
  Ids ids;
  std::vector<Extent> extents;
  EXPECT_TRUE(encoder.EncodeWithExtents(text, &ids, &extents).ok());
  EXPECT_EQ(ids, expected);
  Ids plain;
  EXPECT_TRUE(encoder.Encode(text, &plain).ok());
  EXPECT_EQ(ids, plain);
  return extents;
}

TEST(ExtentTest, TokensAreOfTheBytesTheyStandFor) {
  EXPECT_EQ(Extents(SmallTokenizer(), "xab<|end|>\n [X]\u00e9", {'x', 256, 260, 261, 0xc3, 0xa9}),
            (std::vector<Extent>{{0, 1}, {1, 3}, {3, 10}, {10, 15}, {15, 16}, {16, 17}}));
}

TEST(ExtentTest, WhatIsComposedIsAllOfItsCharacters) {
  Json json = SmallTokenizer();
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(Extents(json, "ab<|end|>abe\u0301ab", {256, 260, 256, 0xc3, 0xa9, 256}),
            (std::vector<Extent>{{0, 2}, {2, 9}, {9, 11}, {11, 14}, {11, 14}, {14, 16}}));
}

TEST(ExtentTest, ASpaceThatIsAddedIsOfNoByte) {
  Json json = SmallTokenizer();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(Extents(json, "ab<|end|>b", {' ', 256, 260, ' ', 'b'}),
            (std::vector<Extent>{{0, 0}, {0, 2}, {2, 9}, {9, 9}, {9, 10}}));
}

TEST(FingerprintTest, OfIdsIsOfTokenizerJsonAloneHoweverItIsLaidOut) {
  const Json json = SmallTokenizer();
  const auto of = [](const std::string& text, const std::string& config = "") {
    const auto tokenizer =
        Tokenizer::Parse({.tokenizer = text, .config = config, .chat_template = ""});
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
    return (*tokenizer)->ids_fingerprint();
  };
  const uint64_t plain = of(json.dump());
  EXPECT_EQ(of(json.dump(2), R"({"eos_token":"<|end|>","chat_template":"x"})"), plain);
  Json older = json;
  older["version"] = "1.0";
  for (Json& merge : older["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  EXPECT_EQ(of(older.dump()), plain);
  Json changed = json;
  changed["pre_tokenizer"]["use_regex"] = false;
  EXPECT_NE(of(changed.dump()), plain);
  changed = json;
  std::swap(changed["model"]["merges"][0], changed["model"]["merges"][2]);
  EXPECT_NE(of(changed.dump()), plain);
  changed = json;
  std::swap(changed["model"]["vocab"]["a"], changed["model"]["vocab"]["b"]);
  EXPECT_NE(of(changed.dump()), plain);
}

TEST(DecodeTest, BrokenCharactersAndUnknownIds) {
  const auto tokenizer = *Parse(SmallTokenizer());
  EXPECT_EQ(tokenizer->Decode(Ids{'a', 0xe4, 0xbd, 0xa0, 'b'}, true), "a\u4f60b");
  EXPECT_EQ(tokenizer->Decode(Ids{0xe4, 0xbd, 'b'}, true), "\ufffdb");
  EXPECT_EQ(tokenizer->Decode(Ids{0xe4, 'b', 0x80, 0x80}, true), "\ufffdb\ufffd\ufffd");
  EXPECT_EQ(tokenizer->Decode(Ids{0xed, 0xa0, 0x80}, true), "\ufffd\ufffd\ufffd");  // a surrogate
  EXPECT_EQ(tokenizer->Decode(Ids{'a', 260, 9999, -1, 261}, true), "a[X]");
  EXPECT_EQ(tokenizer->Decode(Ids{'a', 260}, false), "a<|end|>");
}

TEST(ParseTokenizerTest, KindsThatAreNotByteLevelBpeAreNamed) {
  for (const char* kind : {"Unigram", "WordPiece", "WordLevel"}) {
    Json json = SmallTokenizer();
    json["model"]["type"] = kind;
    EXPECT_NE(ErrorOf(json).find(std::string("its model is ") + kind), std::string::npos);
  }
  Json json = SmallTokenizer();
  json["model"]["byte_fallback"] = true;
  EXPECT_NE(ErrorOf(json).find("SentencePiece"), std::string::npos);
  json = SmallTokenizer();
  json["pre_tokenizer"]["type"] = "Metaspace";
  EXPECT_NE(ErrorOf(json).find("pre-tokeniser is Metaspace"), std::string::npos);
  json = SmallTokenizer();
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(ErrorOf(json).find("normaliser is Lowercase"), std::string::npos);
}

TEST(ParseTokenizerTest, WhatIsWrongIsSaid) {
  Json json = SmallTokenizer();
  json["model"]["merges"].push_back({"a", "zz"});
  EXPECT_NE(ErrorOf(json).find("merge 4 needs the token 'zz'"), std::string::npos);
  json = SmallTokenizer();
  json["model"]["merges"] = {"a b c"};
  EXPECT_NE(ErrorOf(json).find("merge 0 is 'a b c'"), std::string::npos);
  json = SmallTokenizer();
  json["model"]["vocab"]["zz"] = 5;
  EXPECT_NE(ErrorOf(json).find("which another one has"), std::string::npos);
  json["model"]["vocab"]["zz"] = int64_t{1} << 40;
  EXPECT_NE(ErrorOf(json).find("not from 0 to"), std::string::npos);
  json["model"]["vocab"]["zz"] = ~uint64_t{0};
  EXPECT_NE(ErrorOf(json).find("not from 0 to"), std::string::npos);
  json["model"]["vocab"]["zz"] = -1;
  EXPECT_NE(ErrorOf(json).find("not from 0 to"), std::string::npos);
  json = SmallTokenizer();
  json["model"]["vocab"].erase("a");
  EXPECT_NE(ErrorOf(json).find("lacks 1 token of the 256"), std::string::npos);
  json = SmallTokenizer();
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}}}}};
  EXPECT_NE(ErrorOf(json).find("'(a' is not understood"), std::string::npos);
  EXPECT_NE(ErrorOf(SmallTokenizer(), R"({"eos_token":"<none>"})").find("eos_token '<none>'"),
            std::string::npos);
  json = SmallTokenizer();
  json["added_tokens"] = Json::parse(R"([{"id":"x"}])");
  EXPECT_NE(
      ErrorOf(json).find("added_tokens has an entry without a text ('content'): {\"id\":\"x\"}"),
      std::string::npos)
      << ErrorOf(json);
  EXPECT_NE(ErrorOf(Json::array()).find("no tokenizer.json"), std::string::npos);
}

TEST(ParseTokenizerTest, AnExpressionThatBacktracksForeverIsGivenUp) {
  Json json = SmallTokenizer();
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(?:a|aa)+[xyz]"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}}}}};
  const auto tokenizer = Parse(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  Ids ids;
  const Status status = Encoder(*tokenizer).Encode(std::string(5000, 'a') + "c", &ids);
  EXPECT_NE(status.message().find("gave up"), std::string::npos) << status.message();
}

// Parts replaced by values of other kinds: an error or a tokenizer, and whichever it is encodes and
// decodes.
TEST(ParseTokenizerTest, HostileJsonIsAnErrorAndNeverACrash) {
  const Json whole = SmallTokenizer();
  const std::vector<Json> values = {
      nullptr, true, -1, 1e300, "x", Json::array(), Json::object(), {{{"type", "Sequence"}}}};
  std::vector<Json::json_pointer> places;
  const Json flat = whole.flatten();
  for (const auto& [place, value] : flat.items()) {
    if (place.find("/vocab/") == std::string::npos) places.emplace_back(place);
  }
  for (const char* place : {"/model", "/model/vocab", "/model/merges", "/added_tokens", "/decoder",
                            "/pre_tokenizer", "/post_processor", "/normalizer", "/model/vocab/a"}) {
    places.emplace_back(place);
  }
  for (const auto& place : places) {
    for (const Json& value : values) {
      Json changed = whole;
      changed[place] = value;
      const auto tokenizer = Parse(changed);
      if (!tokenizer.ok()) continue;
      Ids ids;
      if (Encoder(*tokenizer).EncodeWhole("abc [X] \u4f60<|end|>", &ids).ok()) {
        (*tokenizer)->Decode(ids, false);
      }
    }
  }
  std::mt19937 random(1);
  const std::string text = whole.dump();
  for (int i = 0; i < 300; ++i) {  // damaged bytes, cut files
    std::string damaged = text.substr(0, random() % text.size());
    if (i % 2 == 0) damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)Tokenizer::Parse({.tokenizer = damaged, .config = damaged, .chat_template = ""});
  }
  EXPECT_FALSE(
      Tokenizer::Parse({.tokenizer = std::string(1 << 20, '['), .config = "", .chat_template = ""})
          .ok());
}

TEST(LoadTokenizerTest, ErrorsNameTheFile) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("tokenizer-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const auto missing = Tokenizer::Load(folder.string());
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.message().find((folder / "tokenizer.json").string()), std::string::npos);
  std::ofstream(folder / "tokenizer.json") << "{}";
  EXPECT_NE(Tokenizer::Load(folder.string()).message().find("tokenizer.json: it is no"),
            std::string::npos);
  std::ofstream(folder / "tokenizer.json") << SmallTokenizer();
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"eos_token":{"content":"<|end|>"},"chat_template":"x"})";
  std::ofstream(folder / "chat_template.jinja") << "y";
  const auto loaded = Tokenizer::Load(folder.string());
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_EQ((*loaded)->eos(), 260);
  EXPECT_EQ((*loaded)->chat_template(), "y");
  EXPECT_EQ((*loaded)->num_ids(), 262);
  fs::remove_all(folder);
}

TEST(ChatTemplateTest, WhatIsBeyondTheEvaluatorIsAnError) {
  for (const std::string& source :
       {std::string("{% for x in %}"), std::string("{{ a"), std::string("{% macro %}"),
        "{{ " + std::string(30, '(') + " }}", std::string(100000, 'x'),
        "{{ " + std::string(20000, '(') + " }}"}) {
    const auto chat = ChatTemplate::Parse(source, {});
    ASSERT_FALSE(chat.ok());
    EXPECT_TRUE(chat.message().starts_with("the chat template: ")) << chat.message();
    EXPECT_FALSE(chat.message().ends_with(":")) << chat.message();
  }
  const auto raises = ChatTemplate::Parse("{{ raise_exception('only users') }}", {});
  ASSERT_TRUE(raises.ok());
  EXPECT_NE(raises->Render({}, false).message().find("only users"), std::string::npos);
}

TEST(ChatTemplateTest, WhatDoesNotEndIsAnError) {
  for (const auto& [source, error] :
       {std::pair{"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "calls itself"},
        {"{% for i in range(1000000000) %}{{ i }}{% endfor %}", "further than a million"},
        {"{% for i in range(10, end=-1000000000, step=-1) %}x{% endfor %}",
         "further than a million"},
        {"{% for i in range(5000) %}{% for j in range(5000) %}x{% endfor %}{% endfor %}",
         "further than a million"}}) {
    const auto chat = ChatTemplate::Parse(source, {});
    ASSERT_TRUE(chat.ok()) << chat.message();
    EXPECT_NE(chat->Render({}, false).message().find(error), std::string::npos) << source;
  }
  for (const auto& [source, error] :
       {std::pair{"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "a recursive loop"},
        {"{% for i in [1] %}{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}{% endfor %}",
         "a macro in a loop"}}) {
    EXPECT_NE(ChatTemplate::Parse(source, {}).message().find(error), std::string::npos) << source;
  }
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "{%- if x %}";
  EXPECT_NE(ChatTemplate::Parse(nested, {}).message().find("blocks in one another"),
            std::string::npos);
  std::string in_a_row;
  for (int i = 0; i < 100; ++i) in_a_row += "{% if true %}x{% set a = 1 %}{% endif %}";
  const auto chat = ChatTemplate::Parse(in_a_row, {});
  ASSERT_TRUE(chat.ok()) << chat.message();
  EXPECT_EQ(chat->Render({}, false).value(), std::string(100, 'x'));
}

// What this process has mapped.
rlim_t AddressSpaceBytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

TEST(ChatTemplateTest, WithoutRoomForItsStackIsAnError) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = AddressSpaceBytes() + (rlim_t{64} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const auto refused = ChatTemplate::Parse("{{ bos_token }}", {});
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_NE(refused.message().find("the chat template: no more threads"), std::string::npos)
      << refused.message();
  const auto read = ChatTemplate::Parse("{{ bos_token }}", {});
  EXPECT_TRUE(read.ok()) << read.message();
}

TEST(ChatTemplateTest, ConversationsWithoutAnAnswerOrWithAChangedBeginningAreErrors) {
  const auto last = ChatTemplate::Parse(
      "{% for m in messages %}{{ m.content if loop.last else '' }}{% endfor %}", {});
  ASSERT_TRUE(last.ok()) << last.message();
  const Message question{{"role", "user"}, {"content", "a"}};
  const Message answer{{"role", "assistant"}, {"content", "b"}};
  EXPECT_NE(last->Spans({question}).message().find("no message is the assistant's"),
            std::string::npos);
  EXPECT_NE(last->Spans({question, answer}).message().find("differently"), std::string::npos);
}

}  // namespace
}  // namespace shardscope::tokenizer
