#include "trace/analysis/steps/step_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::analysis {
namespace {

StepBreakdown Of(int32_t rank, int32_t step, int64_t step_ns, int64_t exposed_ns, int64_t tokens,
                 double loss) {
  StepBreakdown row;
  row.rank = rank;
  row.step = step;
  row.start_ns = 1000 * step + rank;
  row.step_ns = step_ns;
  row.time.compute_ns = step_ns - exposed_ns;
  row.time.communication_ns = exposed_ns;
  row.time.exposed_ns = exposed_ns;
  row.tokens = tokens;
  row.loss = loss;
  row.grad_norm = 0.5;
  return row;
}

query::Marker At(int32_t step, int64_t time_ns, const std::string& kind, const std::string& key,
                 const std::string& from, const std::string& to) {
  return {time_ns, step, kind, key, from, to};
}

TEST(StepTable, IsOneRowAStepOverAllRanks) {
  const std::vector<StepRow> rows = MakeStepTable(
      {Of(0, 4, 500, 100, 30, 2.0), Of(1, 4, 800, 300, 10, 4.0), Of(0, 5, 600, 0, 30, 1.5)}, {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].step, 4);
  EXPECT_EQ(rows[0].num_ranks, 2);
  EXPECT_EQ(rows[0].start_ns, 4000);
  EXPECT_EQ(rows[0].step_ns, 800);  // the slowest rank's
  EXPECT_EQ(rows[0].slowest_rank, 1);
  EXPECT_EQ(rows[0].slowest_exposed_ns, 300);
  EXPECT_DOUBLE_EQ(rows[0].mean_step_ns, 650);
  EXPECT_DOUBLE_EQ(rows[0].exposed_ns, 200);
  EXPECT_DOUBLE_EQ(rows[0].compute_ns + rows[0].exposed_ns, rows[0].mean_step_ns);
  EXPECT_EQ(rows[0].tokens, 40);
  EXPECT_DOUBLE_EQ(rows[0].loss, 2.5);  // by tokens
  EXPECT_DOUBLE_EQ(rows[0].tokens_per_second(), 40 / 800e-9);
  EXPECT_EQ(rows[1].num_ranks, 1);  // the other has not finished it
}

TEST(StepTable, HasWhatHappenedAtEachStepOnceAndInOrder) {
  const std::vector<StepRow> rows = MakeStepTable(
      {Of(0, 4, 500, 0, 1, 1), Of(0, 5, 500, 0, 1, 1)},
      {At(5, 90, "checkpoint", "", "", "step-5"), At(5, 80, "change", "prefetch.forward", "1", "2"),
       At(5, 81, "change", "prefetch.forward", "1", "2"), At(9, 99, "stop", "", "", "")});
  EXPECT_TRUE(rows[0].events.empty());
  ASSERT_EQ(rows[1].events.size(), 2u);
  EXPECT_EQ(EventText(rows[1].events[0]), "prefetch.forward 1 -> 2");
  EXPECT_EQ(EventText(rows[1].events[1]), "checkpoint step-5");
  EXPECT_EQ(EventText(At(1, 1, "skip", "scaler", "65536", "32768")), "skip scaler 65536 -> 32768");
  EXPECT_EQ(EventText(At(1, 1, "change", "prompt", "", "a\nb")), "prompt -> a b");
  EXPECT_THAT(PrintStepTable(rows),
              testing::HasSubstr("prefetch.forward 1 -> 2, checkpoint step-5\n"));
  EXPECT_EQ(PrintStepTable({}), "");
}

TEST(StepTable, SaysNothingOfWhatIsNotKnown) {
  StepBreakdown imported = Of(0, 0, 500, 0, 0, 0);
  imported.timed_from = std::numeric_limits<int32_t>::min();
  imported.grad_norm = std::numeric_limits<double>::quiet_NaN();
  const std::vector<StepRow> rows = MakeStepTable({imported}, {});
  EXPECT_TRUE(std::isnan(rows[0].loss));
  EXPECT_TRUE(std::isnan(rows[0].grad_norm));
  EXPECT_FALSE(rows[0].is_warm_up);
  EXPECT_EQ(rows[0].tokens_per_second(), 0);
}

TEST(StepTable, HasNoLossWhereNoTokenCounts) {
  StepBreakdown row = Of(0, 0, 500, 0, 64, 0);
  EXPECT_TRUE(std::isnan(MakeStepTable({row}, {})[0].loss));
  row.loss = 2;
  EXPECT_EQ(MakeStepTable({row, Of(1, 0, 500, 0, 64, 0)}, {})[0].loss, 1);
}

TEST(StepTable, DoesNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<StepRow> rows = MakeStepTable(
      {Of(0, 0, kMost, 0, kMost, 1), Of(1, 0, kMost, 0, kMost, 1), Of(2, 0, 1, 0, -5, 1)}, {});
  EXPECT_EQ(rows[0].tokens, kMost);
  EXPECT_EQ(rows[0].step_ns, kMost);
}

TEST(StepTable, AgreesWithTheSummaryOfTheSameSteps) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(4, 20, 10, 1);
  const std::vector<StepBreakdown> steps = Breakdowns(*snapshot);
  const std::vector<StepRow> rows = MakeStepTable(steps, snapshot->markers);
  ASSERT_EQ(rows.size(), 20u);
  double exposed_ns = 0;
  for (const StepRow& row : rows) exposed_ns += row.exposed_ns * row.num_ranks;
  double expected_ns = 0;
  for (const StepBreakdown& step : steps) expected_ns += static_cast<double>(step.time.exposed_ns);
  EXPECT_NEAR(exposed_ns, expected_ns, 1);
  EXPECT_DOUBLE_EQ(rows.back().loss, SummarizeRange(steps, 19, 19).last_loss);
  EXPECT_FALSE(rows[10].events.empty());  // prefetching is turned on
}

}  // namespace
}  // namespace shardscope::analysis
