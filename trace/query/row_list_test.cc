#include "trace/query/row_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "trace/query/gpu.h"
#include "trace/query/rows.h"

namespace shardscope::query {
namespace {

constexpr size_t kChunk = RowList<OpRun>::kChunkRows;

bool operator==(const OpRun& a, const OpRun& b) {
  return Packing<OpRun>::Split(a) == Packing<OpRun>::Split(b) && a.rank == b.rank;
}

OpRun RunAt(int64_t at) {
  OpRun run;
  run.id = OpRunId(1000 + 8 * at);
  run.plan_op = PlanOpId(at % 300);
  run.rank = 3;
  run.blocking_kind = at % 2 == 0 ? BlockingKind::kNone : BlockingKind::kSlot;
  run.step = static_cast<int32_t>(at / 100);
  run.track = TrackId(at % 5);
  run.issued_ns = 1'000'000'000 + at * 20'000;
  run.ready_ns = run.issued_ns + at % 7;
  run.started_ns = run.issued_ns + 5'000;
  run.ended_ns = run.started_ns + at % 90'000;
  run.slot_wait_ns = at % 11;
  run.cpu_ns = at % 60'000;
  run.blocking_plan_op = at % 3 == 0 ? PlanOpId::None() : PlanOpId(at % 300);
  return run;
}

// Everything that a field can be, each beside the others' zeros and all at once.
template <typename Row>
std::vector<Row> ExtremeRows() {
  constexpr size_t kColumns = Packing<Row>::kColumns;
  std::vector<Row> rows = {Row{}};
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    std::array<int64_t, kColumns> values{};
    for (int64_t& value : values) value = static_cast<int64_t>(random() >> (random() % 64));
    // Join() cuts to what the fields can hold.
    rows.push_back(Packing<Row>::Join([&](size_t column) { return values[column]; }));
  }
  for (size_t column = 0; column < kColumns; ++column) {
    for (const int64_t extreme : {INT64_MIN, INT64_MAX, int64_t{-1}, int64_t{1}}) {
      rows.push_back(
          Packing<Row>::Join([&](size_t at) { return at == column ? extreme : int64_t{0}; }));
    }
  }
  return rows;
}

template <typename Row>
class PackedRowsTest : public testing::Test {};
using RowTypes = testing::Types<OpRun, Collective, MemoryEvent, Span, GpuWork>;
TYPED_TEST_SUITE(PackedRowsTest, RowTypes);

TYPED_TEST(PackedRowsTest, GiveBackWhatTheyWereMadeOf) {
  const std::vector<TypeParam> rows = ExtremeRows<TypeParam>();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{2}, rows.size()}) {
    const PackedRows<TypeParam> packed(std::span<const TypeParam>(rows).first(size));
    for (size_t at = 0; at < size; ++at) {
      EXPECT_EQ(Packing<TypeParam>::Split(packed[at]), Packing<TypeParam>::Split(rows[at])) << at;
    }
  }
  // One kind of value alone needs no bytes beside it.
  const std::vector<TypeParam> equal(100, rows.back());
  const PackedRows<TypeParam> packed(equal);
  EXPECT_EQ(packed.bytes(),
            PackedRows<TypeParam>(std::span<const TypeParam>(equal).first(1)).bytes());
  EXPECT_EQ(Packing<TypeParam>::Split(packed[99]), Packing<TypeParam>::Split(rows.back()));
}

TEST(PackedRows, OfAUsualRunTakeAThird) {
  std::vector<OpRun> runs;
  for (size_t at = 0; at < kChunk; ++at) runs.push_back(RunAt(static_cast<int64_t>(at)));
  EXPECT_LT(PackedRows<OpRun>(runs).bytes(), sizeof(OpRun) * kChunk / 3);
}

TEST(RowList, OfSeveralChunksGivesItsRowsInOrder) {
  RowList<OpRun> list;
  const auto size = static_cast<int64_t>(2 * kChunk + 17);
  std::vector<RowList<OpRun>> copies;
  for (int64_t at = 0; at < size; ++at) {
    if (at % 1000 == 0 || at == static_cast<int64_t>(kChunk)) copies.push_back(list);
    list.Append(RunAt(at));
  }
  ASSERT_EQ(list.size(), static_cast<size_t>(size));
  int64_t at = 0;
  for (const OpRun& run : list) EXPECT_TRUE(run == RunAt(at++));
  EXPECT_EQ(at, size);
  EXPECT_TRUE(list.back() == RunAt(size - 1));
  EXPECT_EQ(list.begin()->id, RunAt(0).id);
  // What was copied before stays as it was, of full chunks and of what was the last one.
  for (const RowList<OpRun>& copy : copies) {
    at = 0;
    for (const OpRun& run : copy) EXPECT_TRUE(run == RunAt(at++));
    EXPECT_EQ(static_cast<size_t>(at), copy.size());
  }
  const auto found = std::ranges::lower_bound(list, OpRunId(1000 + 8 * 5000), {}, &OpRun::id);
  EXPECT_EQ(found - list.begin(), 5000);
}

TEST(RowList, FindsTheRowsOfSteps) {
  RowList<OpRun> list;
  for (int64_t at = 0; at < static_cast<int64_t>(3 * kChunk); ++at) list.Append(RunAt(at));
  std::vector<size_t> found;
  list.ForEachOfSteps(41, 42, [&](const OpRun& run, size_t index) {
    EXPECT_TRUE(run.step == 41 || run.step == 42);
    found.push_back(index);
  });
  ASSERT_EQ(found.size(), 200u);
  EXPECT_EQ(found.front(), 4100u);
  EXPECT_EQ(found.back(), 4299u);
}

TEST(RowList, KeepsRowsThatAreNotPackedWhereTheyAre) {
  RowList<std::string> list;
  list.Append("first");
  const std::string* first = &list[0];
  for (size_t at = 1; at < 2 * kChunk; ++at) list.Append(std::to_string(at));
  EXPECT_EQ(&list[0], first);
  EXPECT_EQ(list[kChunk], std::to_string(kChunk));
  EXPECT_EQ(list.back(), std::to_string(2 * kChunk - 1));
}

TEST(RowRef, StandsForAPointer) {
  RowList<OpRun> list;
  for (int64_t at = 0; at < static_cast<int64_t>(kChunk + 2); ++at) list.Append(RunAt(at));
  const RowRef<OpRun> none;
  EXPECT_FALSE(none);
  for (const size_t at : {size_t{5}, kChunk + 1}) {
    const RowRef ref(list, at);
    ASSERT_TRUE(ref);
    EXPECT_EQ(ref->issued_ns, RunAt(static_cast<int64_t>(at)).issued_ns);
    EXPECT_TRUE(*ref == RunAt(static_cast<int64_t>(at)));
    EXPECT_EQ(ref, RowRef(list, at));
    EXPECT_NE(ref, none);
  }
}

}  // namespace
}  // namespace shardscope::query
