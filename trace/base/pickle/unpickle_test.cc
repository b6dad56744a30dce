#include "trace/base/pickle/unpickle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "trace/base/pickle/repr_test_util.h"

namespace shardscope::pickle {
namespace {

using namespace std::string_literals;  // NOLINT: pickles have zeros in them

std::string Head(char protocol = 4) { return "\x80"s + protocol; }

Document Read(const std::string& bytes) {
  Result<Document> document = Unpickle(bytes);
  EXPECT_TRUE(document.ok()) << document.message();
  return document.ok() ? std::move(*document) : Document("");
}

std::string ErrorOf(const std::string& bytes) {
  const Result<Document> document = Unpickle(bytes);
  return document.ok() ? "" : document.message();
}

std::string ReprOf(const std::string& bytes) {
  const Document document = Read(bytes);
  return Repr(document, document.root());
}

// Of all containers together, each of which counts once.
size_t NumItems(const Document& document) {
  std::vector<Value> open = {document.root()};
  std::unordered_set<uint32_t> seen;
  size_t num_items = 0;
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    if (!value.is_container() || !seen.insert(value.container()).second) continue;
    const std::span<const Value> items = document.Items(value);
    open.insert(open.end(), items.begin(), items.end());
    num_items += items.size();
  }
  return num_items;
}

TEST(UnpickleTest, KnowsAllNumbers) {
  EXPECT_EQ(ReprOf(Head(2) + "(NK\xffM\x01\x02J\xff\xff\xff\xff\x88\x89G?\xf8\0\0\0\0\0\0t."s),
            "(None,255,513,-1,True,False,1.5,)");
  // LONG1 and LONG4: two's complement of any length.
  EXPECT_EQ(ReprOf(Head(2) + "(\x8a\0\x8a\x01\xff\x8a\x02\xff\0\x8b\x01\0\0\0\x80t."s),
            "(0,-1,255,-128,)");
  const Document large = Read(Head(2) + "(\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s +
                              "\x8a\x09\0\0\0\0\0\0\0\x80\0\x8a\x09\0\0\0\0\0\0\0\x80\xff"s +
                              "\x8a\x0a\xff\xff\xff\xff\xff\xff\xff\x7f\0\0"s + "t.");
  const std::span<const Value> numbers = large.Items(large.root());
  ASSERT_EQ(numbers.size(), 4u);
  EXPECT_EQ(numbers[0].whole(), INT64_MAX);
  EXPECT_EQ(numbers[1].kind(), ValueKind::kReal);
  EXPECT_EQ(numbers[1].real(), std::ldexp(1.0, 63));
  EXPECT_EQ(numbers[1].whole(), std::nullopt);
  EXPECT_EQ(numbers[2].whole(), INT64_MIN);
  EXPECT_EQ(numbers[3].whole(), INT64_MAX);
  const Document huge = Read(Head(2) + "\x8b\x90\x01\0\0"s + std::string(400, '\x7f') + ".");
  EXPECT_EQ(huge.root().real(), HUGE_VAL);
}

TEST(UnpickleTest, KnowsAllTextsAndBytes) {
  EXPECT_EQ(ReprOf(Head() + "(U\1aT\1\0\0\0bX\1\0\0\0c\x8c\x01"s + "d" +
                   "\x8d\x01\0\0\0\0\0\0\0e"s + "C\x01" + "fB\x01\0\0\0g"s +
                   "\x8e\x01\0\0\0\0\0\0\0h"s + "\x96\x01\0\0\0\0\0\0\0i"s + "t."),
            "('a','b','c','d','e',b'f',b'g',b'h',b'i',)");
  // Protocol 2 writes bytes as text, which Latin-1 makes bytes of.
  const Document encoded =
      Read(Head(2) + "c_codecs\nencode\nq\0(X\x04\0\0\0a\xc3\xbf\0X\x06\0\0\0latin1tq\1Rq\2."s);
  EXPECT_EQ(encoded.root().kind(), ValueKind::kBytes);
  EXPECT_EQ(encoded.root().text(), "a\xff\0"s);
  EXPECT_EQ(ReprOf(Head(3) + "cbuiltins\nbytes\n)R."), "b''");
  EXPECT_EQ(ReprOf(Head(4) + "\x8c\x08" + "builtins\x8c\x09" + "bytearray\x93" + "C\x02hi\x85R."),
            "b'hi'");
}

TEST(UnpickleTest, KnowsAllContainers) {
  EXPECT_EQ(ReprOf(Head() + "(K\1K\2l."), "[1,2,]");
  EXPECT_EQ(ReprOf(Head() + "(K\1K\2d."), "{1:2,}");
  EXPECT_EQ(ReprOf(Head() + "]K\1a(K\2K\3e."), "[1,2,3,]");
  EXPECT_EQ(ReprOf(Head() + "}K\1K\2s(K\3K\4K\5K\6u."), "{1:2,3:4,5:6,}");
  EXPECT_EQ(ReprOf(Head() + "()K\1\x85K\1K\2\x86K\1K\2K\3\x87t."), "((),(1,),(1,2,),(1,2,3,),)");
  EXPECT_EQ(ReprOf(Head() + "\x8f(K\1K\2\x90."), "{1,2,}");
  EXPECT_EQ(ReprOf(Head() + "(K\1K\2\x91."), "{1,2,}");
  EXPECT_EQ(ReprOf(Head(2) + "c__builtin__\nset\n](K\1K\2e\x85R."), "{1,2,}");
  EXPECT_EQ(ReprOf(Head(2) + "ccollections\nOrderedDict\n)R(K\1K\2u."), "{1:2,}");
  EXPECT_EQ(ReprOf(Head(2) + "ccollections\nOrderedDict\n](](K\1K\2ee\x85R."), "{1:2,}");
  EXPECT_EQ(ReprOf(Head(2) + "ctorch.jit._pickle\nbuild_intlist\n](K\1K\2e\x85R."), "[1,2,]");
  // POP, POP_MARK, DUP.
  EXPECT_EQ(ReprOf(Head() + "(K\1"
                            "0K\2"
                            "2(K\3K\4"
                            "1t."),
            "(2,2,)");
  EXPECT_EQ(ReprOf(Head() + "K\1("
                            "0."),
            "1");
}

TEST(UnpickleTest, WhatIsSharedIsThereOnce) {
  const Document shared = Read(Head() + "](]\x94K\1ah\0h\0h\0e."s);
  const std::span<const Value> items = shared.Items(shared.root());
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0].container(), items[3].container());
  EXPECT_EQ(NumItems(shared), 5u);
  // Numbers of the memo as LibTorch has them, and such as no memo counts to.
  EXPECT_EQ(ReprOf(Head(2) + "(K\7q\0h\0r\xff\xff\xff\xffj\xff\xff\xff\xfft."s), "(7,7,7,)");
  EXPECT_EQ(ReprOf(Head() + "\x95\x02\0\0\0\0\0\0\0K\1."s), "1");
}

TEST(UnpickleTest, WhatRefersToItselfIsRead) {
  const Document cycle = Read(Head() + "]\x94h\0a."s);
  const std::span<const Value> items = cycle.Items(cycle.root());
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].container(), cycle.root().container());
  EXPECT_EQ(ReprOf(Head() + "}\x94K\1h\0s."s).substr(0, 9), "{1:{1:{1:");
}

TEST(UnpickleTest, WhatIsNoDataIsRefusedByItsName) {
  const struct {
    std::string pickle;
    std::string_view named;
  } cases[] = {
      {"cos\nsystem\n(X\2\0\0\0lstR."s, "os.system"},
      {"\x8c\x05"
       "posix\x8c\x06"
       "system\x93.",
       "posix.system"},
      {"c__builtin__\neval\n.", "__builtin__.eval"},
      {"cbuiltins\ngetattr\n.", "builtins.getattr"},
      {"(ios\nsystem\n.", "os.system"},
      {"ctorch._utils\n_rebuild_tensor_v2\n.", "torch._utils._rebuild_tensor_v2"},
      {"ccollections\nOrderedDict\n)\x81.", "a new object"},
      {"(ccollections\nOrderedDict\no.", "a new object"},
      {"}}b.", "the state of an object"},
      {"\x82\7.", "extension 7"},
      {"\x84\xff\xff\xff\xff.", "extension 4294967295"},
      {"Pname\n.", "the persistent object name"},
      {"X\2\0\0\0meQ."s, "the persistent object me"},
      {"\x97.", "a buffer"},
      {"cos\nsys\x1b[31mtem\n.", "os.sys [31mtem"},
  };
  for (const auto& [pickle, named] : cases) {
    const std::string error = ErrorOf(Head() + pickle);
    EXPECT_NE(error.find("this pickle asks for " + std::string(named)), std::string::npos)
        << error << " instead of " << named;
    EXPECT_NE(error.find("refused, nothing was run (byte "), std::string::npos) << error;
  }
  // What is no function cannot be called, nor a function with what is no tuple.
  EXPECT_NE(ErrorOf(Head() + "K\1)R.").find("this pickle calls 1"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "cbuiltins\nset\n]R.").find("refused"), std::string::npos);
}

TEST(UnpickleTest, DamageIsAnErrorWithItsPlace) {
  EXPECT_EQ(ErrorOf(Head() + "K"), "the pickle ends in the middle (byte 2)");
  EXPECT_EQ(ErrorOf(Head() + "K\1"), "the pickle ends in the middle (byte 4)");
  EXPECT_EQ(ErrorOf(Head() + "K\1\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
            "the pickle ends in the middle (byte 4)");
  EXPECT_NE(ErrorOf(Head() + ".").find("takes more than it has made (byte 2)"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "K\1e.").find("ends what it did not begin"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "(K\1u.").find("takes more"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "}(K\1u.").find("a key without a value"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "(K\1d.").find("a key without a value"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "K\1K\2a.").find("puts values into 1"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "K\1(K\2a.").find("takes more"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "h\5.").find("has no value 5"), std::string::npos);
  EXPECT_NE(ErrorOf(Head() + "I1\n.").find("opcode 0x49 (byte 2)"), std::string::npos);
  EXPECT_NE(ErrorOf("\x80\x01K\1.").find("protocol 1"), std::string::npos);
  EXPECT_NE(ErrorOf("\x80\x06K\1.").find("protocol 6"), std::string::npos);
  EXPECT_FALSE(ErrorOf("").empty());
  // However it is cut, it is an error, and none reads beyond the end.
  const std::string whole = Head() + "\x95\x20\0\0\0\0\0\0\0](}X\1\0\0\0aG\0\0\0\0\0\0\0\0s"s +
                            "\x8c\1b\x8a\x02\1\2cbuiltins\nset\n](K\1e\x85Re.";
  ASSERT_TRUE(Unpickle(whole).ok()) << ErrorOf(whole);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Unpickle(whole.substr(0, size)).ok()) << size;
  }
}

TEST(UnpickleTest, DepthCostsNoStackAndBombsNoMemory) {
  constexpr size_t kDeep = 1'000'000;
  const Document deep = Read(Head() + ")" + std::string(kDeep, '\x85') + ".");
  EXPECT_EQ(NumItems(deep), kDeep);
  const Document marks =
      Read(Head() + std::string(kDeep, '(') + "K\1" + std::string(kDeep, 't') + ".");
  EXPECT_EQ(NumItems(marks), kDeep);
  // Each list holds the one before twice: 2^64 values if they were copied.
  std::string doubling = Head() + "]\x94";
  for (int level = 0; level < 64; ++level)
    doubling += "]\x94(h"s + char(level) + "h" + char(level) + "e";
  EXPECT_EQ(NumItems(Read(doubling + ".")), 128u);
  // One text, encoded again and again.
  std::string encoding = Head(2) + "X\0\0\1\0"s + std::string(1 << 16, 'a') + "q\0("s;
  for (int call = 0; call < 1000; ++call) encoding += "c_codecs\nencode\nh\0h\0\x86R"s;
  EXPECT_NE(ErrorOf(encoding + "t.").find("copies the same data again and again"),
            std::string::npos);
}

TEST(UnpickleTest, FieldsOfRecordsAreFound) {
  const Document document = Read(Head() + "}(\x8c\1aK\1\x8c\1bK\2\x8c\1aK\3u.");
  EXPECT_EQ(document.Whole(document.root(), "a"), 3);  // the last one, as in Python
  EXPECT_EQ(document.Whole(document.root(), "b"), 2);
  EXPECT_EQ(document.Find(document.root(), "c"), nullptr);
  EXPECT_EQ(document.Find(Value::Int(1), "c"), nullptr);
  std::string many = Head() + "}(";
  for (int at = 0; at < 1000; ++at) many += "M"s + char(at % 256) + char(at / 256) + "K\1";
  const Document record = Read(many + "\x8c\1aK\7u.");
  EXPECT_EQ(record.Whole(record.root(), "a"), 7);
}

// What torch.distributed.checkpoint's .metadata is made of, as Python and LibTorch write it.
TEST(UnpickleTest, ObjectsOfNamedClassesAreRecords) {
  constexpr PickledName kNames[] = {{"my.module", "Point", PickledName::Kind::kRecord},
                                    {"torch", "Size", PickledName::Kind::kArgument},
                                    {"torch", "float32", PickledName::Kind::kConstant}};
  const auto read = [&](const std::string& bytes) {
    return Unpickle(bytes, {.names = kNames, .keeps_persistent_ids = true});
  };
  const std::string point = "\x8c\x09my.module\x8c\x05Point\x93"s;
  const std::string size = "\x8c\x05torch\x8c\x04Size\x93K\x07\x85\x85R"s;
  const auto repr = [&](const std::string& bytes) {
    const Result<Document> document = read(bytes);
    return document.ok() ? Repr(*document, document->root()) : document.message();
  };
  EXPECT_EQ(repr(Head() + point + ")\x81}\x8c\x01x" + size + "sb."),
            "{'class':'my.module.Point','arguments':(),'x':(7,),}");
  EXPECT_EQ(repr(Head() + point + "K\x01\x85R."s), "{'class':'my.module.Point','arguments':(1,),}");
  EXPECT_EQ(repr(Head() + point +
                 ")\x81K\x01K\x02\x86"
                 "b."s),
            "{'class':'my.module.Point','arguments':(),'state':(1,2,),}");
  EXPECT_EQ(repr(Head() + "\x8c\x05torch\x8c\x07"
                          "float32\x93."s),
            "'torch.float32'");
  EXPECT_EQ(repr(Head() + "K\x05\x85Q."s), "(5,)");
  // Nothing else changes: what is not named, or not of this form, is refused.
  EXPECT_THAT(repr(Head() + "\x8c\x02os\x8c\x06system\x93."s), testing::HasSubstr("os.system"));
  EXPECT_THAT(repr(Head() + "K\x01)\x81."s), testing::HasSubstr("a new object"));
  EXPECT_THAT(repr(Head() + "}}b."s), testing::HasSubstr("the state of an object"));
  EXPECT_THAT(ErrorOf(Head() + point + ")\x81."s), testing::HasSubstr("my.module.Point"));
  EXPECT_THAT(ErrorOf(Head() + "K\x05\x85Q."s), testing::HasSubstr("the persistent object"));
}

}  // namespace
}  // namespace shardscope::pickle
