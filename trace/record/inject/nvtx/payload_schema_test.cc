// Structured payloads of NVTX: what a library registers, and what is read of the bytes that it then
// sends. Half of it is lies.
#include "trace/record/inject/nvtx/payload_schema.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "trace/record/inject/nvtx/nvtx_ranges.h"
#include "trace/record/inject/nvtx/payload_schemas.h"

namespace shardscope::inject {
namespace {

using Entry = nvtxPayloadSchemaEntry_t;

constexpr uint64_t kFixed = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE;

Entry EntryOf(uint64_t type, const char* name, uint64_t flags = 0, uint64_t detail = 0,
              uint64_t offset = 0) {
  Entry entry = {};
  entry.type = type;
  entry.name = name;
  entry.flags = flags;
  entry.arrayOrUnionDetail = detail;
  entry.offset = offset;
  return entry;
}

nvtxPayloadSchemaAttr_t Attributes(const std::vector<Entry>& entries, uint64_t id = 0) {
  nvtxPayloadSchemaAttr_t attributes = {};
  attributes.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                         NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                         NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES;
  if (id != 0) attributes.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  attributes.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  attributes.entries = entries.data();
  attributes.numEntries = entries.size();
  attributes.schemaId = id;
  return attributes;
}

PayloadType FindNothing(uint64_t /*id*/) { return {}; }

PayloadSchema SchemaOf(const std::vector<Entry>& entries) {
  return MakePayloadSchema(Attributes(entries), &FindNothing);
}

template <typename Data>
std::string TextOf(const std::vector<Entry>& entries, const Data& data) {
  return PayloadText(SchemaOf(entries), &data, sizeof(data));
}

TEST(PayloadSchema, NumbersOfAllWidthsStandWhereTheCompilerPutsThem) {
  struct Data {
    int8_t tiny = -5;
    uint16_t few = 65535;
    int32_t some = -70000;
    uint64_t many = 18446744073709551615U;
    float half = 0.5F;
    double tenth = 0.1;
    const void* place = reinterpret_cast<const void*>(0xABCD);
    size_t bytes = 64;
  };
  EXPECT_EQ(TextOf({EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT8, "tiny"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT16, "few"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT, "some"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG, "many"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "half"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "tenth"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS, "place"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "bytes")},
                   Data()),
            "tiny=-5, few=65535, some=-70000, many=18446744073709551615, half=0.5, tenth=0.1, "
            "place=0xabcd, bytes=64");
}

TEST(PayloadSchema, PackedAndExplicitPlaces) {
  struct [[gnu::packed]] Data {
    uint8_t first = 1;
    uint32_t second = 2;
    uint64_t third = 3;
  };
  const std::vector<Entry> entries = {EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "first"),
                                      EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "second"),
                                      EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "third")};
  nvtxPayloadSchemaAttr_t attributes = Attributes(entries);
  attributes.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT;
  attributes.packAlign = 1;
  const Data data;
  EXPECT_EQ(PayloadText(MakePayloadSchema(attributes, &FindNothing), &data, sizeof(data)),
            "first=1, second=2, third=3");
  EXPECT_EQ(TextOf({EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "third", 0, 0, 5),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "second", 0, 0, 1)},
                   data),
            "third=3, second=2");
}

TEST(PayloadSchema, ArraysTextsAndWhatIsHidden) {
  struct Data {
    char name[8] = {'r', 'i', 'n', 'g', 0, 'x', 'x', 'x'};
    int32_t shape[3] = {2, -3, 4};
    uint8_t lots[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    int32_t secret = 9;
    const char* where = "layer\n0";
    int32_t last = 7;
  };
  EXPECT_EQ(TextOf({EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "name", 0, 8),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT32, "shape", kFixed, 3),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "lots", kFixed, 12),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT32, "secret", NVTX_PAYLOAD_ENTRY_FLAG_HIDE),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "where"),
                    EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT32, nullptr)},
                   Data()),
            "name=ring, shape=[2, -3, 4], lots=[1, 2, 3, 4, 5, 6, 7, 8, ...], where=layer?0, 7");
}

// Registered one after the other, as a program does: an enumeration, a structure, one around it.
TEST(PayloadSchemas, EnumerationsAndStructuresWithinStructures) {
  PayloadSchemas schemas;
  const NvtxDomain domain{"library"};
  const std::array<nvtxPayloadEnum_t, 2> colours = {
      nvtxPayloadEnum_t{"red", 1, 0}, nvtxPayloadEnum_t{"none", static_cast<uint64_t>(-1), 0}};
  nvtxPayloadEnumAttr_t attributes = {};
  attributes.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                         NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
  attributes.entries = colours.data();
  attributes.numEntries = colours.size();
  attributes.sizeOfEnum = sizeof(int16_t);
  const uint64_t colour = schemas.RegisterEnum(&domain, attributes);
  EXPECT_GE(colour, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
  constexpr uint64_t kInner = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 7;
  struct Inner {
    int16_t colour = -1;
    int32_t size = 3;
  };
  struct Outer {
    uint8_t before = 1;
    Inner inner;
    int16_t colour = 1;
    int16_t other = 5;
  };
  EXPECT_EQ(schemas.Register(&domain, Attributes({EntryOf(colour, "colour"),
                                                  EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT32, "size")},
                                                 kInner)),
            kInner);
  const uint64_t outer = schemas.Register(
      &domain,
      Attributes({EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, "before"), EntryOf(kInner, "inner"),
                  EntryOf(colour, "colour"), EntryOf(colour, "other")}));
  const Outer data;
  EXPECT_EQ(schemas.Text(&domain, {outer, sizeof(data), &data}),
            "before=1, inner.colour=none, inner.size=3, colour=red, other=5");
  // The library's own number holds in its domain only.
  EXPECT_EQ(schemas.Text(&domain, {kInner, sizeof(Inner), &data.inner}), "colour=none, size=3");
  const NvtxDomain other{"other"};
  EXPECT_EQ(schemas.Text(&other, {kInner, sizeof(Inner), &data.inner}), "");
}

TEST(PayloadSchemas, ANumberWithTwoMeaningsIsNotRead) {
  PayloadSchemas schemas;
  constexpr uint64_t kId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START;
  const std::vector<Entry> one = {EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_INT32, "one")};
  const int32_t value = 4;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(schemas.Register(nullptr, Attributes(one, kId)), kId);
  EXPECT_EQ(schemas.Text(nullptr, {kId, sizeof(value), &value}), "one=4");
  const std::vector<Entry> two = {EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "two")};
  EXPECT_EQ(schemas.Register(nullptr, Attributes(two, kId)), kId);
  EXPECT_EQ(schemas.Text(nullptr, {kId, sizeof(value), &value}), "");
  for (const uint64_t wrong : {uint64_t{1}, uint64_t{NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START}}) {
    EXPECT_EQ(schemas.Register(nullptr, Attributes(one, wrong)), 0U);
  }
}

TEST(PayloadSchemas, ValuesOfNvtxsOwnTypesNeedNoSchema) {
  PayloadSchemas schemas;
  const std::array<int32_t, 3> values = {1, 2, 3};
  EXPECT_EQ(schemas.Text(nullptr, {NVTX_PAYLOAD_ENTRY_TYPE_INT32, 12, values.data()}), "[1, 2, 3]");
  EXPECT_EQ(schemas.Text(nullptr, {NVTX_PAYLOAD_ENTRY_TYPE_INT32, SIZE_MAX, values.data()}), "1");
  EXPECT_EQ(schemas.Text(nullptr, {NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, 5, "hello, you"}), "hello");
  EXPECT_EQ(schemas.Text(nullptr, {NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, SIZE_MAX, "hello"}), "");
  EXPECT_EQ(schemas.Text(nullptr, {NVTX_TYPE_PAYLOAD_SCHEMA_RAW, 12, values.data()}), "");
  EXPECT_EQ(schemas.Text(nullptr, {NVTX_PAYLOAD_ENTRY_TYPE_INT32, 12, nullptr}), "");
}

// A name is kept for ever: a payload that counts may not use all of them up.
TEST(PayloadSchemas, OfEverNewValuesOnlyTheFirstAreTold) {
  PayloadSchemas schemas;
  const auto text = [&](uint64_t value) {
    return schemas.Text(nullptr, {NVTX_PAYLOAD_ENTRY_TYPE_UINT64, sizeof(value), &value});
  };
  for (uint64_t value = 0; value < kMaxPayloadTexts; ++value) {
    EXPECT_EQ(text(value), std::to_string(value));
  }
  EXPECT_EQ(text(kMaxPayloadTexts), std::nullopt);
  EXPECT_EQ(text(5), "5");
}

TEST(HostilePayloadSchema, FieldsThatDoNotLieInThePayloadHaveNoValue) {
  const std::array<uint8_t, 8> data = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto text = [&](const Entry& entry) { return TextOf({entry}, data); };
  constexpr uint64_t kByte = NVTX_PAYLOAD_ENTRY_TYPE_UINT8;
  EXPECT_EQ(text(EntryOf(kByte, "a", 0, 0, 7)), "a=8");
  for (const uint64_t offset : {uint64_t{8}, uint64_t{1} << 20, uint64_t{1} << 40, UINT64_MAX}) {
    EXPECT_EQ(text(EntryOf(kByte, "a", 0, 0, offset)), "") << offset;
  }
  EXPECT_EQ(text(EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "a", 0, 0, 1)), "");
  for (const uint64_t count : {uint64_t{9}, uint64_t{1} << 21, uint64_t{1} << 61, UINT64_MAX}) {
    EXPECT_EQ(text(EntryOf(kByte, "a", kFixed, count)), "") << count;
    EXPECT_EQ(text(EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "a", kFixed, count)), "") << count;
    EXPECT_EQ(text(EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "a", 0, count)), "") << count;
  }
  // What comes behind an entry of unknown size has no place, unless it says so.
  EXPECT_EQ(TextOf({EntryOf(4711, "a"), EntryOf(kByte, "b"), EntryOf(kByte, "c", 0, 0, 2),
                    EntryOf(kByte, "d")},
                   data),
            "c=3, d=4");
  const PayloadSchema schema = SchemaOf({EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "a")});
  EXPECT_EQ(PayloadText(schema, data.data(), 3), "");
  EXPECT_EQ(PayloadText(schema, nullptr, 4), "");
}

TEST(HostilePayloadSchema, PointersToNowhereAreNotFollowed) {
  const auto text = [](uint64_t address) {
    return TextOf({EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "at")}, address);
  };
  for (const uint64_t address : {uint64_t{0}, uint64_t{1}, uint64_t{0xDEAD} << 48, UINT64_MAX}) {
    EXPECT_EQ(text(address), "at=?") << address;
  }
  // Text that goes up to the end of what is mapped, without an end of its own.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const memory = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(munmap(memory + page, page), 0);
  std::memset(memory, 'x', page);
  EXPECT_EQ(text(reinterpret_cast<uint64_t>(memory + page - 3)), "at=xxx");
  EXPECT_EQ(text(reinterpret_cast<uint64_t>(memory)), "at=" + std::string(64, 'x'));
  ASSERT_EQ(munmap(memory, page), 0);
}

TEST(HostilePayloadSchema, NothingGrowsWithoutEnd) {
  PayloadSchemas schemas;
  const NvtxDomain domain{"library"};
  const std::string long_name(1 << 20, 'n');
  // A structure of 64 that hold 64 of ... each; one that holds itself; one that is not there.
  std::vector<Entry> entries(64, EntryOf(NVTX_PAYLOAD_ENTRY_TYPE_UINT8, long_name.c_str()));
  uint64_t id = 0;
  for (int depth = 0; depth < 20; ++depth) {
    id = schemas.Register(&domain, Attributes(entries));
    entries.assign(64, EntryOf(id, long_name.c_str()));
  }
  constexpr uint64_t kSelf = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 1;
  schemas.Register(&domain,
                   Attributes({EntryOf(kSelf, "self"), EntryOf(kSelf + 1, "none")}, kSelf));
  const std::vector<char> data(1 << 21, 'x');
  for (const uint64_t one : {id, kSelf}) {
    const auto text = schemas.Text(&domain, {one, data.size(), data.data()});
    ASSERT_TRUE(text.has_value());
    EXPECT_LE(text->size(), 300U);
  }
  nvtxPayloadSchemaAttr_t none = Attributes(entries);
  none.entries = nullptr;
  none.numEntries = SIZE_MAX;
  EXPECT_TRUE(MakePayloadSchema(none, &FindNothing).fields.empty());
  nvtxPayloadEnumAttr_t no_values = {};
  no_values.fieldMask = UINT64_MAX;
  no_values.numEntries = SIZE_MAX;
  no_values.sizeOfEnum = 3;
  EXPECT_EQ(MakePayloadEnum(no_values).bytes, 0U);
}

// Any bytes as a schema: whatever it says, only the payload is read (as the address sanitizer
// sees).
TEST(HostilePayloadSchema, AnyEntriesAreSafe) {
  std::mt19937_64 random(3);
  const auto pick = [&](std::initializer_list<uint64_t> values) {
    return values.begin()[random() % values.size()];
  };
  PayloadSchemas schemas;
  const NvtxDomain domain{"library"};
  std::vector<uint64_t> ids = {0};
  size_t num_texts = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Entry> entries(random() % 8);
    for (Entry& entry : entries) {
      const uint64_t type = pick(
          {random() % 28, random() % 28, random() % 128, ids[random() % ids.size()], random()});
      entry = EntryOf(type, "n", pick({0, 0, kFixed, random() % (1 << 14), random()}),
                      pick({0, random() % 40, random()}), pick({0, random() % 64, random()}));
    }
    nvtxPayloadSchemaAttr_t attributes = Attributes(entries);
    attributes.fieldMask |= random() & ~uint64_t{NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID};
    attributes.packAlign = pick({0, 1, 3, random()});
    attributes.payloadStaticSize = pick({0, 16, random()});
    ids.push_back(schemas.Register(&domain, attributes));
    const std::vector<std::byte> data(random() % 48 + 1, static_cast<std::byte>(random()));
    const auto text = schemas.Text(&domain, {ids.back(), data.size(), data.data()});
    if (text && !text->empty()) ++num_texts;
  }
  EXPECT_GT(num_texts, 100U);
}

}  // namespace
}  // namespace shardscope::inject
