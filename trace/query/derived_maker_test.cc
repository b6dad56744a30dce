#include "trace/query/derived_maker.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardscope::query {
namespace {

schema::StepPartRow PartAt(int64_t rank, int64_t step) {
  schema::StepPartRow row;
  row.rank = rank;
  row.step = step;
  row.compute_ns = 10 * step + rank;
  return row;
}

schema::StallRow StallAt(int64_t rank, int64_t step) {
  schema::StallRow row;
  row.rank = rank;
  row.step = step;
  row.start_ns = 1;
  row.end_ns = 2;
  row.cause = "late_rank";
  return row;
}

TEST(DerivedMakerTest, PutsWhatComesInPiecesInOrderAndCountsWhatItLeavesOut) {
  DerivedMaker maker({0, 3});
  store::RowBatch batch;
  batch.Get<schema::StepPartRow>() = {PartAt(3, 2), PartAt(0, 2), PartAt(1, 2)};  // no rank 1
  batch.Get<schema::StallRow>() = {StallAt(3, 2), StallAt(0, 2)};
  maker.Add(&batch);
  EXPECT_TRUE(store::IsEmpty(batch));
  batch.Get<schema::StepPartRow>() = {PartAt(0, 1), PartAt(0, 2), PartAt(0, -9)};
  batch.Get<schema::StallRow>() = {StallAt(0, 1), StallAt(7, 1)};
  maker.Add(&batch);
  const Derived derived = maker.Make();
  ASSERT_NE(derived.rows, nullptr);
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (const schema::StepPartRow& row : derived.rows->step_parts) {
    parts.emplace_back(row.step, row.rank);
  }
  EXPECT_EQ(parts, (std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {2, 0}, {2, 3}}));
  std::vector<std::pair<int32_t, int32_t>> stalls;
  for (const KeptStall& stall : derived.rows->stalls.all()) {
    stalls.emplace_back(stall.step, stall.rank);
  }
  EXPECT_EQ(stalls, (std::vector<std::pair<int32_t, int32_t>>{{1, 0}, {2, 3}, {2, 0}}));
  // Rank 1, a step that cannot be, a part that is there twice, and the stall of rank 7.
  EXPECT_EQ(derived.num_refused, 4);
}

TEST(DerivedMakerTest, WithoutAPartOfAStepThereIsNothingButWhatWasLeftOut) {
  DerivedMaker maker({0});
  store::RowBatch batch;
  batch.Get<schema::StepPartRow>() = {PartAt(5, 1)};
  maker.Add(&batch);
  const Derived derived = maker.Make();
  EXPECT_EQ(derived.rows, nullptr);
  EXPECT_EQ(derived.num_refused, 1);
}

}  // namespace
}  // namespace shardscope::query
