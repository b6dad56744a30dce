#include "trace/analysis/steps/breakdown.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <tuple>

#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/breakdown_cache.h"

namespace shardscope::analysis {
namespace {

// One rank, one step, one op of each kind.
class OneStep : public ::testing::Test {
 protected:
  StepBreakdown Only() {
    const std::vector<StepBreakdown> rows = Breakdowns(*test_.Build());
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? StepBreakdown{} : rows.front();
  }

  TestSnapshot test_{1};
  query::PlanOpId gather_ = test_.Plan("all_gather", "forward", "block0");
  query::PlanOpId copy_ = test_.Plan("copy_out", "forward", "block0");
  query::PlanOpId forward_ = test_.Plan("forward", "forward", "", "block0.mlp");
  query::PlanOpId optimizer_ = test_.Plan("optimizer", "optimizer", "block0");
  query::PlanOpId reshard_ = test_.Plan("reshard", "forward", "block0");
  query::PlanOpId control_ = test_.Plan("control", "");
};

TEST_F(OneStep, CountsUnionsNotSums) {
  test_.Run(0, 0, gather_, 10, 40);
  test_.Run(0, 0, gather_, 20, 50);  // overlaps the first: counted once
  test_.Run(0, 0, forward_, 30, 60);
  test_.Run(0, 0, forward_, 60, 70);  // touches
  test_.Run(0, 0, optimizer_, 80, 90);
  query::Step& step = test_.Step(0, 0, 0, 100);
  step.tokens = 512;
  step.loss = 2.5;
  step.grad_norm = 0.75;
  const StepBreakdown row = Only();
  EXPECT_EQ(row.step_ns, 100);
  EXPECT_EQ(row.time.compute_ns, 50);  // 30-70 and 80-90
  EXPECT_EQ(row.time.communication_ns, 40);
  EXPECT_EQ(row.time.overlap_ns, 20);
  EXPECT_EQ(row.time.exposed_ns, 20);
  EXPECT_EQ(row.time.copy_ns, 0);
  EXPECT_EQ(row.time.idle_ns, 30);  // 0-10, 70-80, 90-100
  EXPECT_EQ(row.tokens, 512);
  EXPECT_EQ(row.loss, 2.5);
  EXPECT_EQ(row.grad_norm, 0.75);
  EXPECT_DOUBLE_EQ(TokensPerSecond(row), 512 / 100e-9);
  EXPECT_DOUBLE_EQ(TokensPerSecond(512, 100), TokensPerSecond(row));
  EXPECT_EQ(TokensPerSecond(512, 0), 0);
}

TEST_F(OneStep, CopyInsideComputeIsNotExposed) {
  test_.Run(0, 0, forward_, 0, 50);
  test_.Run(0, 0, copy_, 10, 20);  // inside compute
  test_.Run(0, 0, gather_, 50, 60);
  test_.Run(0, 0, copy_, 55, 75);  // half inside communication
  test_.Step(0, 0, 0, 80);
  const StepBreakdown row = Only();
  EXPECT_EQ(row.time.copy_ns, 30);
  EXPECT_EQ(row.time.exposed_copy_ns, 15);
  EXPECT_EQ(row.time.idle_ns, 5);
}

TEST_F(OneStep, WithoutCommunicationNothingIsExposed) {
  test_.Run(0, 0, forward_, 0, 50);
  test_.Step(0, 0, 0, 50);
  const StepBreakdown row = Only();
  EXPECT_EQ(row.time.communication_ns, 0);
  EXPECT_EQ(row.time.exposed_ns, 0);
  EXPECT_EQ(row.time.idle_ns, 0);
  const Summary summary = SummarizeRange({row}, 0, 0);
  EXPECT_EQ(summary.overlap_ratio, 0);
  EXPECT_FALSE(summary.communicates);
}

TEST_F(OneStep, HostAndBookkeepingCountForNothing) {
  test_.Run(0, 0, control_, 0, 30);
  test_.Run(0, 0, reshard_, 30, 60);
  test_.Step(0, 0, 0, 100);
  EXPECT_EQ(Only().time.idle_ns, 100);
}

TEST_F(OneStep, ClipsToTheStep) {
  test_.Run(0, 0, forward_, 0, 40);
  test_.Run(0, 0, gather_, 90, 130);
  test_.Step(0, 0, 20, 100);
  const StepBreakdown row = Only();
  EXPECT_EQ(row.time.compute_ns, 20);
  EXPECT_EQ(row.time.exposed_ns, 10);
  EXPECT_EQ(row.time.idle_ns, 50);
}

TEST_F(OneStep, SlotWaitIsTheIdlePartOfTheWaits) {
  test_.Run(0, 0, gather_, 0, 30);
  query::OpRun& waited = test_.Run(0, 0, forward_, 50, 80);
  waited.slot_wait_ns = 40;  // 10-50, of which 10-30 is communication
  test_.Step(0, 0, 0, 80);
  const StepBreakdown row = Only();
  EXPECT_EQ(row.slot_wait_ns, 20);
  EXPECT_EQ(row.time.idle_ns, 20);
}

TEST_F(OneStep, UnfinishedStepsAreLeftOut) {
  test_.Run(0, 0, forward_, 0, 50);
  EXPECT_TRUE(Breakdowns(*test_.Build()).empty());
}

// One bool a nanosecond, no intervals at all.
StepBreakdown Oracle(const query::Snapshot& snapshot, const query::RankRows& rows,
                     const query::Step& step) {
  StepBreakdown row;
  for (int64_t t = step.start_ns; t < step.end_ns; ++t) {
    bool compute = false;
    bool communication = false;
    bool copy = false;
    bool slot = false;
    for (const query::OpRun& run : rows.op_runs) {
      const query::PlanOp& op = *snapshot.FindPlanOp(run.plan_op);
      const bool running = run.started_ns <= t && t < run.ended_ns;
      compute |= running && (op.kind == "forward" || op.kind == "optimizer");
      communication |= running && (op.kind == "all_gather" || op.kind == "reduce_scatter");
      copy |= running && op.kind == "copy_out";
      slot |= op.kind == "forward" && run.started_ns - run.slot_wait_ns <= t && t < run.started_ns;
    }
    row.step_ns += 1;
    row.time.compute_ns += compute;
    row.time.communication_ns += communication;
    row.time.copy_ns += copy;
    row.time.overlap_ns += compute && communication;
    row.time.exposed_ns += communication && !compute;
    row.time.exposed_copy_ns += copy && !compute && !communication;
    const bool idle = !compute && !communication && !copy;
    row.time.idle_ns += idle;
    row.slot_wait_ns += idle && slot;
  }
  return row;
}

TEST(Breakdown, EqualsTheOracleOnRandomRuns) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    TestSnapshot test(1);
    const std::vector<std::string> kinds = {"forward",  "optimizer", "all_gather", "reduce_scatter",
                                            "copy_out", "reshard",   "load_batch"};
    for (const std::string& kind : kinds) test.Plan(kind, "forward", "block0");
    for (int64_t i = pick(0, 12); i > 0; --i) {
      const int64_t started = pick(0, 280);
      query::OpRun& run =
          test.Run(0, 0, query::PlanOpId(pick(1, static_cast<int64_t>(kinds.size()))), started,
                   started + pick(0, 60));
      if (run.plan_op == query::PlanOpId(1)) run.slot_wait_ns = pick(0, 40);
    }
    test.Step(0, 0, 30, 300);
    const query::SnapshotPtr snapshot = test.Build();
    const StepBreakdown row = Breakdowns(*snapshot).front();
    const query::RankRows& rows = snapshot->ranks.front();
    const StepBreakdown expected = Oracle(*snapshot, rows, rows.steps.back());
    EXPECT_EQ(row.time.compute_ns, expected.time.compute_ns) << round;
    EXPECT_EQ(row.time.communication_ns, expected.time.communication_ns) << round;
    EXPECT_EQ(row.time.copy_ns, expected.time.copy_ns) << round;
    EXPECT_EQ(row.time.overlap_ns, expected.time.overlap_ns) << round;
    EXPECT_EQ(row.time.exposed_ns, expected.time.exposed_ns) << round;
    EXPECT_EQ(row.time.exposed_copy_ns, expected.time.exposed_copy_ns) << round;
    EXPECT_EQ(row.time.idle_ns, expected.time.idle_ns) << round;
    EXPECT_EQ(row.slot_wait_ns, expected.slot_wait_ns) << round;
    const TimeSplit& time = row.time;
    EXPECT_EQ(time.compute_ns + time.exposed_ns + time.exposed_copy_ns + time.idle_ns, row.step_ns);
  }
}

// A whole run is taken in parts of some steps; a cache takes its rows in their order.
TEST(Breakdown, InPartsIsThatOfAllRowsAtOnce) {
  TestSnapshot test(2);
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  std::mt19937 random(7);
  int64_t time_ns = 0;
  for (int32_t step = 0; step < 3'000; step += 1 + static_cast<int32_t>(random() % 20)) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      for (int op = 0; op < 30; ++op) {
        const auto from_ns = time_ns + static_cast<int64_t>(random() % 1'000);
        test.Run(rank, step, op % 2 == 0 ? forward : gather, from_ns,
                 from_ns + static_cast<int64_t>(random() % 100));
      }
      // Some are never finished, or by one rank only.
      if (random() % 8 != 0) test.Step(rank, step, time_ns, time_ns + 1'000);
    }
    time_ns += 1'000;
  }
  const auto snapshot = test.Build();
  const std::vector<StepBreakdown> in_parts = Breakdowns(*snapshot);
  BreakdownCache cache;
  const std::vector<StepBreakdown>& at_once = cache.Update(*snapshot);
  ASSERT_GT(at_once.size(), 400u);
  ASSERT_EQ(in_parts.size(), at_once.size());
  for (size_t at = 0; at < in_parts.size(); ++at) {
    const StepBreakdown& a = in_parts[at];
    const StepBreakdown& b = at_once[at];
    EXPECT_EQ(
        std::tuple(a.step, a.rank, a.start_ns, a.end_ns, a.time.compute_ns, a.time.communication_ns,
                   a.time.overlap_ns, a.time.exposed_ns, a.time.idle_ns),
        std::tuple(b.step, b.rank, b.start_ns, b.end_ns, b.time.compute_ns, b.time.communication_ns,
                   b.time.overlap_ns, b.time.exposed_ns, b.time.idle_ns));
  }
}

StepBreakdown Row(int32_t rank, int32_t step, int64_t step_ns, int64_t exposed_ns, double loss) {
  StepBreakdown row;
  row.rank = rank;
  row.step = step;
  row.step_ns = step_ns;
  row.time.exposed_ns = exposed_ns;
  row.time.communication_ns = 2 * exposed_ns;
  row.time.overlap_ns = exposed_ns;
  row.tokens = 100;
  row.loss = loss;
  return row;
}

// Of many values they are found in another way.
TEST(Percentile, OfManyIsThatOfFew) {
  std::mt19937_64 random(5);
  const auto drawn = [&random](double most) {
    return [&random, most] {
      return std::floor(std::uniform_real_distribution<double>(0, most)(random));
    };
  };
  const std::function<double()> kinds[] = {
      drawn(1),
      drawn(2),
      drawn(3),
      drawn(1e3),
      drawn(1e6),
      drawn(1e18),
      [&random] { return std::exp(std::uniform_real_distribution<double>(0, 40)(random)); },
      [&random] { return random() % 20 < 19 ? -0.0 : 1e9; },
      [&random] { return random() % 2 == 0 ? -3.0 : 3.0; }};
  for (const auto& kind : kinds) {
    for (const size_t count : {100'000u, 100'001u, 123'456u}) {
      std::vector<double> values(count);
      for (double& value : values) value = kind();
      const Percentiles found = PercentilesOf(values);
      EXPECT_EQ(found.p50, Percentile(values, 0.5));
      EXPECT_EQ(found.p95, Percentile(values, 0.95));
    }
  }
}

TEST(Percentile, IsLinearBetweenNeighbours) {
  EXPECT_EQ(Percentile({}, 0.5), 0);
  EXPECT_EQ(Percentile({7}, 0.95), 7);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Percentile({0, 100}, 0.95), 95);
}

TEST(Summary, LeavesWarmUpOutButItsLosses) {
  std::vector<StepBreakdown> rows;
  for (int32_t step = 0; step < 4; ++step) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      rows.push_back(Row(rank, step, step < 2 ? 1'000'000 : 1'000, step < 2 ? 500'000 : 100,
                         5.0 - step + 0.5 * rank));
    }
  }
  rows.push_back(Row(0, 4, 1'000, 100, 0));  // rank 1 has not finished step 4
  const Summary summary = SummarizeRange(rows, 0, 4);
  EXPECT_EQ(summary.num_ranks, 2);
  EXPECT_EQ(summary.num_steps, 2);
  EXPECT_EQ(summary.step_ns.p50, 1'000);
  EXPECT_EQ(summary.step_ns.p95, 1'000);
  EXPECT_DOUBLE_EQ(summary.exposed_share, 0.1);
  EXPECT_DOUBLE_EQ(summary.overlap_ratio, 0.5);
  EXPECT_TRUE(summary.communicates);
  EXPECT_DOUBLE_EQ(summary.tokens_per_second, 200 / 1e-6);
  EXPECT_DOUBLE_EQ(summary.first_loss, 5.25);
  EXPECT_DOUBLE_EQ(summary.last_loss, 2.25);
}

TEST(Summary, HasTheLossesOfStepsInWhichATokenCounts) {
  std::vector<StepBreakdown> rows;
  for (int32_t step = 0; step < 5; ++step) {
    const bool counts = step != 0 && step != 4;
    for (int32_t rank = 0; rank < 2; ++rank) {
      // One of the ranks may have no token that counts: its part is 0.
      rows.push_back(Row(rank, step, 1'000, 100, counts && rank == 0 ? 12.0 - step : 0));
    }
  }
  const Summary summary = SummarizeRange(rows, 0, 4);
  EXPECT_DOUBLE_EQ(summary.first_loss, 5.5);
  EXPECT_DOUBLE_EQ(summary.last_loss, 4.5);
  EXPECT_EQ(SummarizeRange(rows, 4, 4).first_loss, 0);
}

TEST(Summary, OfWarmUpAloneUsesIt) {
  const Summary summary = SummarizeRange({Row(0, 0, 400, 10, 1), Row(0, 1, 200, 10, 1)}, 0, 9);
  EXPECT_EQ(summary.num_steps, 2);
  EXPECT_EQ(summary.step_ns.p50, 300);
}

// One step of ten is far longer: sums would call 1.1 of 1.9 exposed, where the medians are 1 of 10.
TEST(Summary, TheExposedShareAgreesWithTheMediansBesideIt) {
  std::vector<StepBreakdown> rows;
  for (int32_t step = 2; step < 12; ++step) rows.push_back(Row(0, step, 1'000, 100, 1));
  rows.back() = Row(0, 11, 10'000, 10'000, 1);
  rows.back().time.communication_ns = 10'000;
  const Summary summary = SummarizeRange(rows, 2, 11);
  EXPECT_EQ(summary.exposed_ns.p50, 100);
  EXPECT_DOUBLE_EQ(summary.exposed_share, summary.exposed_ns.p50 / summary.step_ns.p50);
}

TEST(Summary, OfARangeKeepsToIt) {
  std::vector<StepBreakdown> rows;
  for (int32_t step = 0; step < 10; ++step) rows.push_back(Row(0, step, step < 5 ? 100 : 50, 0, 1));
  EXPECT_EQ(SummarizeRange(rows, 0, 4).step_ns.p50, 100);
  EXPECT_EQ(SummarizeRange(rows, 0, 4).num_steps, 3);
  EXPECT_EQ(SummarizeRange(rows, 5, 9).step_ns.p50, 50);
  EXPECT_EQ(SummarizeRange(rows, 20, 30).num_steps, 0);
}

}  // namespace
}  // namespace shardscope::analysis
