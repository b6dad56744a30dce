// Rows packed in columns come back as they were; other bytes give none.
#include "trace/store/row_chunk.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace shardscope::store {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Fields to the bit.
class FieldWords final : public schema::FieldSink {
 public:
  void Integer(int64_t value) override { words_ += std::to_string(value) + " "; }
  void Real(double value) override {
    words_ += std::to_string(std::bit_cast<uint64_t>(value)) + " ";
  }
  void Text(std::string_view value) override {
    words_ += std::to_string(value.size()) + ":";
    words_ += value;
    words_ += " ";
  }
  const std::string& words() const { return words_; }

 private:
  std::string words_;
};

std::string WordsOf(const AnyRows& rows) {
  FieldWords words;
  for (size_t i = 0; i < rows.size(); ++i) rows.Write(i, &words);
  return words.words();
}

template <typename Row>
AnyRows& RowsOf(RowBatch* batch) {
  return batch->At(kTable<Row>.index);
}

template <typename Row>
void ExpectSameAfterPacking(const std::vector<Row>& rows) {
  RowBatch packed;
  packed.Get<Row>() = rows;
  const std::string data = PackRows(RowsOf<Row>(&packed));
  RowBatch unpacked;
  ASSERT_TRUE(UnpackRows(data, &RowsOf<Row>(&unpacked)));
  EXPECT_EQ(unpacked.Get<Row>().size(), rows.size());
  EXPECT_EQ(WordsOf(RowsOf<Row>(&unpacked)), WordsOf(RowsOf<Row>(&packed)));
}

schema::OpRunRow RunWith(int64_t id, int64_t started_ns, int64_t cpu_ns) {
  schema::OpRunRow row;
  row.id = schema::OpRunId(id);
  row.started_ns = started_ns;
  row.ended_ns = started_ns + 5;
  row.cpu_ns = cpu_ns;
  row.blocking_plan_op = schema::PlanOpId::None();
  row.blocking_kind = id % 2 == 0 ? "event" : "none";
  return row;
}

TEST(RowChunk, IntegersOfEveryRange) {
  for (int bits = 0; bits <= 64; ++bits) {
    const uint64_t range = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    for (const int64_t least : {kLeast, int64_t{-1}, int64_t{0}, int64_t{77}}) {
      const auto most = static_cast<int64_t>(static_cast<uint64_t>(least) + range);
      ExpectSameAfterPacking<schema::OpRunRow>(
          {RunWith(1, 5, least), RunWith(2, 9, most), RunWith(5, 7, least), RunWith(6, 7, least)});
    }
  }
  ExpectSameAfterPacking<schema::OpRunRow>({RunWith(kMost, kLeast, kMost)});
  ExpectSameAfterPacking<schema::OpRunRow>(
      {RunWith(kLeast, kLeast, kMost), RunWith(-1, kMost - 5, kLeast), RunWith(kMost, 0, 0)});
}

TEST(RowChunk, Reals) {
  std::vector<schema::StepRow> rows;
  for (const double value :
       {0.0, -0.0, 2.5, -1e300, std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    schema::StepRow& row = rows.emplace_back();
    row.loss = value;
    row.grad_norm = -value;
  }
  ExpectSameAfterPacking(rows);
}

TEST(RowChunk, Texts) {
  const std::string with_zero("a\0b", 3);
  std::vector<schema::StringRow> rows;
  for (const std::string& text :
       {std::string(), std::string("one"), std::string(), std::string(100'000, 'x'), with_zero,
        std::string("层"), std::string("one")}) {
    rows.push_back({schema::StringId(static_cast<int64_t>(rows.size()) + 1), text});
  }
  ExpectSameAfterPacking(rows);
  std::vector<schema::OpRunRow> runs;
  for (int64_t i = 0; i < 300; ++i) {
    runs.push_back(RunWith(i, i, i));
    runs.back().blocking_kind = std::string(static_cast<size_t>(i % 32), 'x') + std::to_string(i);
  }
  ExpectSameAfterPacking(runs);
}

// A row of every table, though only hot ones are packed.
TEST(RowChunk, EveryTable) {
  RowBatch batch;
  schema::ForEachType(schema::AllRows(), [&batch]<typename Row>() {
    batch.Get<Row>().resize(3);
    RowBatch unpacked;
    ASSERT_TRUE(UnpackRows(PackRows(RowsOf<Row>(&batch)), &RowsOf<Row>(&unpacked)))
        << kTable<Row>.name;
    EXPECT_EQ(WordsOf(RowsOf<Row>(&unpacked)), WordsOf(RowsOf<Row>(&batch)));
  });
}

TEST(RowChunk, WhatIsRegularTakesNoRoom) {
  RowBatch batch;
  for (size_t i = 0; i < kMostRowsOfChunk; ++i) {
    const auto id = static_cast<int64_t>(i);
    batch.Get<schema::OpRunRow>().push_back(RunWith(2 * id + 70'000, id * 1000, 10));
  }
  const std::string data = PackRows(RowsOf<schema::OpRunRow>(&batch));
  EXPECT_LT(data.size(), 500u);
  RowBatch unpacked;
  ASSERT_TRUE(UnpackRows(data, &RowsOf<schema::OpRunRow>(&unpacked)));
  EXPECT_EQ(WordsOf(RowsOf<schema::OpRunRow>(&unpacked)),
            WordsOf(RowsOf<schema::OpRunRow>(&batch)));
}

TEST(RowChunk, RowsAreAppended) {
  RowBatch batch;
  batch.Get<schema::OpRunRow>() = {RunWith(1, 2, 3), RunWith(2, 3, 4)};
  const std::string data = PackRows(RowsOf<schema::OpRunRow>(&batch));
  ASSERT_TRUE(UnpackRows(data, &RowsOf<schema::OpRunRow>(&batch)));
  ASSERT_EQ(batch.Get<schema::OpRunRow>().size(), 4u);
  EXPECT_EQ(batch.Get<schema::OpRunRow>()[3].cpu_ns, 4);
}

class DamagedChunk : public testing::Test {
 protected:
  DamagedChunk() {
    RowBatch batch;
    for (int64_t i = 1; i <= 5; ++i) batch.Get<schema::OpRunRow>().push_back(RunWith(i, i * i, i));
    good_ = PackRows(RowsOf<schema::OpRunRow>(&batch));
  }

  template <typename Row = schema::OpRunRow>
  static bool Unpacks(const std::string& data) {
    RowBatch batch;
    batch.Get<Row>().resize(1);
    const bool good = UnpackRows(data, &RowsOf<Row>(&batch));
    EXPECT_EQ(batch.Get<Row>().size() > 1, good);
    return good;
  }

  template <typename Number>
  std::string With(size_t at, Number number) const {
    std::string data = good_;
    std::memcpy(data.data() + at, &number, sizeof(number));
    return data;
  }

  // Behind format, rows and columns: kind, base, start and width of the ids.
  static constexpr size_t kFirstKind = 12;
  static constexpr size_t kFirstWidth = kFirstKind + 1 + 16;

  std::string good_;
};

TEST_F(DamagedChunk, AnyPartOfOne) {
  EXPECT_TRUE(Unpacks(good_));
  for (size_t size = 0; size < good_.size(); ++size) EXPECT_FALSE(Unpacks(good_.substr(0, size)));
  EXPECT_FALSE(Unpacks(good_ + '\0'));
  EXPECT_FALSE(Unpacks(""));
}

TEST_F(DamagedChunk, AnyByteIsAnother) {
  for (size_t at = 0; at < good_.size(); ++at) {
    for (int value = 0; value < 256; ++value) (void)Unpacks(With(at, static_cast<char>(value)));
  }
}

TEST_F(DamagedChunk, HeaderAndKindsOfAnother) {
  EXPECT_FALSE(Unpacks(With<uint32_t>(0, kChunkFormat + 1)));
  EXPECT_FALSE(Unpacks(With<uint32_t>(4, 0)));
  EXPECT_FALSE(Unpacks(With<uint32_t>(4, kMostRowsOfChunk + 1)));
  EXPECT_FALSE(Unpacks(With<uint32_t>(4, ~uint32_t{0})));
  EXPECT_FALSE(Unpacks(With<uint32_t>(8, 12)));
  EXPECT_FALSE(Unpacks(With<uint32_t>(8, ~uint32_t{0})));
  EXPECT_FALSE(Unpacks(With(kFirstKind, ChunkColumn::kReals)));
  EXPECT_FALSE(Unpacks(With(kFirstKind, ChunkColumn::kTexts)));
  EXPECT_FALSE(Unpacks(With<uint8_t>(kFirstKind, 5)));
  EXPECT_FALSE(Unpacks(With<uint8_t>(kFirstWidth, 9)));
  EXPECT_FALSE(Unpacks(With<uint8_t>(kFirstWidth, 255)));
  EXPECT_FALSE(Unpacks<schema::StepRow>(good_));
  EXPECT_FALSE(Unpacks<schema::CollectiveRow>(good_));
}

// At the end are the texts of blocking_kind, "none" and "event": lengths, bytes, base, start,
// width, a byte a row, padding.
TEST_F(DamagedChunk, TextsThatAreNotThere) {
  const size_t numbers = good_.size() - 8 - 5;
  const size_t base = numbers - 17;
  const size_t lengths = base - 9 - 8;
  ASSERT_EQ(good_.substr(base - 9, 9), "noneevent");
  EXPECT_FALSE(Unpacks(With<uint8_t>(numbers + 3, 2)));
  EXPECT_FALSE(Unpacks(With<uint64_t>(base, 1)));
  EXPECT_FALSE(Unpacks(With<uint64_t>(base, ~uint64_t{0})));
  EXPECT_FALSE(Unpacks(With<uint32_t>(lengths, 5)));
  EXPECT_FALSE(Unpacks(With<uint32_t>(lengths, ~uint32_t{0})));
  EXPECT_FALSE(Unpacks(With<uint32_t>(lengths - 4, 1)));
  EXPECT_FALSE(Unpacks(With<uint32_t>(lengths - 4, 6)));
}

// A text that all rows share is packed once and would be unpacked for each.
TEST(RowChunk, TextsThatNoMemoryHoldsAreRefused) {
  RowBatch batch;
  std::vector<schema::MarkerRow>& rows = batch.Get<schema::MarkerRow>();
  rows.resize(64);
  for (schema::MarkerRow& row : rows) row.old_value = std::string(kMostTextOfChunk / 64, 'x');
  AnyRows& all = batch.At(kTable<schema::MarkerRow>.index);
  std::string data = PackRows(all);
  ASSERT_FALSE(data.empty());
  RowBatch back;
  EXPECT_TRUE(UnpackRows(data, &back.At(kTable<schema::MarkerRow>.index)));
  rows.push_back(rows.front());
  EXPECT_TRUE(PackRows(all).empty());
  // Said to be one byte longer than it is: the base behind it loses one.
  const uint32_t length = kMostTextOfChunk / 64;
  const size_t at = data.find(std::string(reinterpret_cast<const char*>(&length), sizeof(length)));
  ASSERT_NE(at, std::string::npos);
  const uint32_t longer = length + 1;
  std::memcpy(&data[at], &longer, sizeof(longer));
  data.insert(at + 4, 1, 'x');
  RowBatch none;
  EXPECT_FALSE(UnpackRows(data, &none.At(kTable<schema::MarkerRow>.index)));
  EXPECT_TRUE(none.Get<schema::MarkerRow>().empty());
}

}  // namespace
}  // namespace shardscope::store
