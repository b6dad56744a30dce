#include "trace/analysis/explain/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/explain/critical_path.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/breakdown.h"

namespace shardscope::analysis {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int kUnits = 3;
constexpr int kSteps = 8;

struct Injection {
  int32_t rank = 0;
  std::string stage;
  int64_t delay_ns = 0;
  int32_t step = -1;  // -1: all of them
};

// Runs a step of FSDP on ranks whose stages take about as long as one another: a gather that all
// ranks meet for before each unit's forward and backward, a reduction behind its backward.
class FrontRun {
 public:
  FrontRun(int num_ranks, uint32_t seed, bool prefetch, std::optional<Injection> injection)
      : num_ranks_(num_ranks),
        prefetch_(prefetch),
        injection_(std::move(injection)),
        random_(seed),
        test_(num_ranks),
        now_ns_(static_cast<size_t>(num_ranks), 1000 * kMs) {
    data_ = test_.Plan("load_batch", "forward");
    for (int unit = 0; unit < kUnits; ++unit) {
      const std::string name = "block" + std::to_string(unit);
      gathers_.push_back(test_.Plan("all_gather", "forward", name));
      forwards_.push_back(test_.Plan("forward", "forward", name, "", {gathers_.back()}));
    }
    for (int unit = 0; unit < kUnits; ++unit) {
      const std::string name = "block" + std::to_string(unit);
      backwards_.push_back(test_.Plan("backward", "backward", name));
      reductions_.push_back(
          test_.Plan("reduce_scatter", "backward", name, "", {backwards_.back()}));
    }
    optimizer_ = test_.Plan("optimizer", "optimizer", "block0");
    for (int32_t step = 0; step < kSteps; ++step) RunStep(step);
    snapshot_ = test_.Build();
  }

  const query::Snapshot& snapshot() const { return *snapshot_; }
  int64_t step_ns(int32_t step) const { return ends_ns_.at(step) - starts_ns_.at(step); }

  static std::vector<std::string> Stages() {
    std::vector<std::string> stages = {"data", "optimizer"};
    for (int unit = 0; unit < kUnits; ++unit) {
      stages.push_back("forward block" + std::to_string(unit));
      stages.push_back("backward block" + std::to_string(unit));
    }
    return stages;
  }

 private:
  // Within 1 %, and what is injected.
  int64_t Length(int32_t rank, int32_t step, const std::string& stage, int64_t usual_ns) {
    int64_t length_ns =
        std::uniform_int_distribution<int64_t>(usual_ns * 99 / 100, usual_ns * 101 / 100)(random_);
    const bool here = injection_ && injection_->rank == rank && injection_->stage == stage &&
                      (injection_->step < 0 || injection_->step == step);
    return here ? length_ns + injection_->delay_ns : length_ns;
  }

  void Compute(int32_t step, query::PlanOpId op, const std::string& stage, int64_t usual_ns) {
    for (int32_t rank = 0; rank < num_ranks_; ++rank) {
      int64_t& now_ns = now_ns_[static_cast<size_t>(rank)];
      const int64_t end_ns = now_ns + Length(rank, step, stage, usual_ns);
      test_.Run(rank, step, op, now_ns, end_ns);
      now_ns = end_ns;
    }
  }

  // Begins when each rank comes to it; ends for all a while after the last. `wait`: the ranks need
  // it now.
  void Meet(int32_t step, query::PlanOpId op, const std::vector<int64_t>& arrivals_ns,
            int64_t transfer_ns, bool wait) {
    const int64_t end_ns = *std::ranges::max_element(arrivals_ns) + transfer_ns;
    for (int32_t rank = 0; rank < num_ranks_; ++rank) {
      const auto at = static_cast<size_t>(rank);
      test_.Run(rank, step, op, arrivals_ns[at], end_ns);
      if (wait) now_ns_[at] = std::max(now_ns_[at], end_ns);
    }
  }

  void RunStep(int32_t step) {
    std::vector<int64_t> starts_ns = now_ns_;
    Compute(step, data_, "data", 2 * kMs);
    std::vector<int64_t> issued_ns = now_ns_;
    for (size_t unit = 0; unit < kUnits; ++unit) {
      const std::vector<int64_t> next_ns = now_ns_;
      Meet(step, gathers_[unit], prefetch_ ? issued_ns : next_ns, 3 * kMs, true);
      issued_ns = now_ns_;
      Compute(step, forwards_[unit], "forward block" + std::to_string(unit), 8 * kMs);
    }
    for (size_t unit = kUnits; unit-- > 0;) {
      Compute(step, backwards_[unit], "backward block" + std::to_string(unit), 15 * kMs);
      Meet(step, reductions_[unit], now_ns_, 4 * kMs, unit == 0);
    }
    Compute(step, optimizer_, "optimizer", 4 * kMs);
    starts_ns_[step] = *std::ranges::max_element(starts_ns);
    ends_ns_[step] = *std::ranges::max_element(now_ns_);
    for (int32_t rank = 0; rank < num_ranks_; ++rank) {
      const auto at = static_cast<size_t>(rank);
      test_.Step(rank, step, starts_ns[at], now_ns_[at]);
    }
  }

  const int num_ranks_;
  const bool prefetch_;
  const std::optional<Injection> injection_;
  std::mt19937 random_;
  TestSnapshot test_;
  std::vector<int64_t> now_ns_;
  query::PlanOpId data_;
  query::PlanOpId optimizer_;
  std::vector<query::PlanOpId> gathers_, forwards_, backwards_, reductions_;
  std::map<int32_t, int64_t> starts_ns_, ends_ns_;
  query::SnapshotPtr snapshot_;
};

TEST(Front, IncrementsAddUpToTheStep) {
  for (const bool prefetch : {false, true}) {
    const FrontRun run(4, 7, prefetch, Injection{2, "backward block1", 9 * kMs, 3});
    std::map<int32_t, int64_t> sums;
    for (const FrontPart& part : FrontParts(run.snapshot(), 0, kSteps)) {
      EXPECT_GT(part.front_ns, 0);
      EXPECT_LE(part.delay_ns, part.front_ns);
      sums[part.step] += part.front_ns;
    }
    std::map<int32_t, int64_t> path_sums;
    for (const PathPart& part : CriticalPath(run.snapshot(), 0, kSteps))
      path_sums[part.step] += part.end_ns - part.start_ns;
    for (int32_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(sums[step], run.step_ns(step)) << step;
      EXPECT_EQ(path_sums[step], run.step_ns(step)) << step;
    }
  }
}

// The proof that the issue asks for: a delay of 5 % of the step or more is named first in at least
// 48 of 50 runs.
TEST(Front, NamesAnInjectedDelay) {
  std::mt19937 random(20'260);
  int named = 0;
  for (uint32_t i = 0; i < 50; ++i) {
    const int num_ranks = std::uniform_int_distribution(2, 8)(random);
    const std::vector<std::string> stages = FrontRun::Stages();
    Injection injection;
    injection.rank = std::uniform_int_distribution(0, num_ranks - 1)(random);
    injection.stage = stages[std::uniform_int_distribution<size_t>(0, stages.size() - 1)(random)];
    const FrontRun clean(num_ranks, i, i % 2 == 0, std::nullopt);
    injection.delay_ns = clean.step_ns(4) * std::uniform_int_distribution(5, 15)(random) / 100;
    injection.step = i % 3 == 0 ? std::uniform_int_distribution(0, kSteps - 1)(random) : -1;
    const FrontRun run(num_ranks, i, i % 2 == 0, injection);
    const Front front = MakeFront(FrontParts(run.snapshot(), 0, kSteps));
    if (front.delays.empty()) continue;
    const RankDelay& first = front.delays.front();
    const bool right = first.rank == injection.rank && first.stage == injection.stage &&
                       first.is_lasting == (injection.step < 0);
    if (!right) continue;
    ++named;
    EXPECT_NEAR(static_cast<double>(first.worst_ns), static_cast<double>(injection.delay_ns),
                static_cast<double>(kMs));
    if (injection.step >= 0) {
      EXPECT_EQ(first.worst_step, injection.step);
    }
  }
  EXPECT_GE(named, 48);
}

TEST(Front, NamesNobodyWithoutADelay) {
  for (uint32_t i = 0; i < 20; ++i) {
    const FrontRun run(2 + static_cast<int>(i % 7), 100 + i, i % 2 == 0, std::nullopt);
    EXPECT_THAT(MakeFront(FrontParts(run.snapshot(), 0, kSteps)).delays, testing::IsEmpty()) << i;
  }
}

TEST(Front, ARankThatIsSlowAllOverIsNamedOnce) {
  std::vector<FrontPart> parts;
  for (int32_t step = 0; step < 4; ++step) {
    for (int stage = 0; stage < 20; ++stage)
      parts.push_back({step, "forward block" + std::to_string(stage), 1, 5 * kMs, kMs});
    parts.push_back({step, "end", 0, 5 * kMs, 0});
  }
  const Front front = MakeFront(parts);
  ASSERT_EQ(front.delays.size(), 1u);
  EXPECT_EQ(front.delays[0].rank, 1);
  EXPECT_EQ(front.delays[0].stage, "");
  EXPECT_EQ(front.delays[0].total_ns, 80 * kMs);
  EXPECT_DOUBLE_EQ(front.delays[0].share, 80.0 / 420.0);
}

TEST(Front, OneRankAloneDelaysNobody) {
  const FrontRun run(1, 3, false, Injection{0, "data", 20 * kMs, -1});
  EXPECT_THAT(MakeFront(FrontParts(run.snapshot(), 0, kSteps)).delays, testing::IsEmpty());
}

// What passes before a program asks for its data is no reading of data; of one that does not tell
// when it reads, it may be.
TEST(Front, WhatComesBeforeReadingIsNotData) {
  for (const bool tells_of_data : {true, false}) {
    TestSnapshot test(1);
    const query::PlanOpId first =
        test.Plan(tells_of_data ? "load_batch" : "forward", "forward", "block0");
    const query::PlanOpId backward = test.Plan("backward", "backward", "block0");
    test.Run(0, 0, first, 5 * kMs, 7 * kMs).issued_ns = 5 * kMs;
    test.Run(0, 0, backward, 7 * kMs, 20 * kMs).issued_ns = 7 * kMs;
    test.Step(0, 0, 0, 20 * kMs);
    std::map<std::string, int64_t> front_ns;
    for (const FrontPart& part : FrontParts(*test.Build(), 0, 1)) {
      front_ns[part.stage] = part.front_ns;
    }
    EXPECT_EQ(front_ns["between steps"], tells_of_data ? 5 * kMs : 0);
    EXPECT_EQ(front_ns["data"], tells_of_data ? 2 * kMs : 5 * kMs);
  }
}

// The path follows the late rank: its forward is on it, the others' waits are not.
TEST(CriticalPath, GoesOnWithTheLateRank) {
  TestSnapshot test(2);
  const query::PlanOpId forward = test.Plan("forward", "forward", "block0");
  const query::PlanOpId reduce = test.Plan("all_reduce", "backward", "block0", "", {forward});
  const query::PlanOpId optimizer = test.Plan("optimizer", "optimizer", "block0", "", {reduce});
  test.Run(0, 0, forward, 0, 10).blocking_plan_op = query::PlanOpId::None();
  test.Run(1, 0, forward, 0, 50);
  test.Run(0, 0, reduce, 10, 70).blocking_plan_op = forward;
  test.Run(1, 0, reduce, 50, 70).blocking_plan_op = forward;
  test.Run(0, 0, optimizer, 70, 90).blocking_plan_op = reduce;
  test.Run(1, 0, optimizer, 70, 80).blocking_plan_op = reduce;
  test.Step(0, 0, 0, 90);
  test.Step(1, 0, 0, 80);
  const std::vector<PathPart> path = CriticalPath(*test.Build(), 0, 0);
  ASSERT_EQ(path.size(), 3u);
  EXPECT_EQ(path[0].kind, PathKind::kCompute);
  EXPECT_EQ(path[0].rank, 1);
  EXPECT_EQ(path[0].end_ns, 50);
  EXPECT_EQ(path[1].kind, PathKind::kTransfer);
  EXPECT_EQ(path[1].start_ns, 50);
  EXPECT_EQ(path[2].kind, PathKind::kOptimizer);
  EXPECT_EQ(path[2].rank, 0);
  EXPECT_EQ(path[2].end_ns, 90);
}

// Block 1 is gathered late: behind a forward of 40 that the host waited for, or on its own account.
std::map<PathKind, int64_t> PathOfALateGather(bool host_waits, bool gather_needs_copy) {
  TestSnapshot test(1);
  const query::PlanOpId gather0 = test.Plan("all_gather", "forward", "block0");
  const query::PlanOpId forward0 = test.Plan("forward", "forward", "block0", "", {gather0});
  const query::PlanOpId copy1 = test.Plan("copy_in", "forward", "block1");
  test.op(copy1).stream = "copy";
  const query::PlanOpId gather1 = test.Plan("all_gather", "forward", "block1");
  if (gather_needs_copy) test.op(gather1).predecessors = {copy1};
  const query::PlanOpId forward1 = test.Plan("forward", "forward", "block1", "", {gather1});
  const auto run = [&test](query::PlanOpId op, int64_t issued_ns, int64_t start_ns, int64_t end_ns,
                           query::BlockingKind kind, query::PlanOpId blocker) {
    query::OpRun& row = test.Run(0, 0, op, start_ns, end_ns);
    row.issued_ns = issued_ns;
    row.blocking_kind = kind;
    row.blocking_plan_op = blocker;
  };
  const query::PlanOpId none = query::PlanOpId::None();
  run(gather0, 1, 1, 10, query::BlockingKind::kNone, none);
  run(forward0, 2, 10, 50, query::BlockingKind::kEvent, gather0);
  if (host_waits) {
    run(copy1, 51, 52, 53, query::BlockingKind::kHost, forward0);
  } else {
    run(copy1, 51, 52, 53, query::BlockingKind::kNone, none);
  }
  run(gather1, 55, 55, 70, query::BlockingKind::kNone, none);  // carries no wait of the host
  run(forward1, 56, 70, 90, query::BlockingKind::kEvent, gather1);
  test.Step(0, 0, 0, 90);
  std::map<PathKind, int64_t> sums;
  for (const PathPart& part : CriticalPath(*test.Build(), 0, 0)) {
    sums[part.kind] += part.end_ns - part.start_ns;
  }
  return sums;
}

TEST(CriticalPath, GoesOnWithWhatTheHostWaitedFor) {
  using Sums = std::map<PathKind, int64_t>;
  EXPECT_EQ(PathOfALateGather(true, true), (Sums{{PathKind::kHost, 1 + 1 + 2},
                                                 {PathKind::kTransfer, 9 + 15},
                                                 {PathKind::kCompute, 40 + 20},
                                                 {PathKind::kWait, 1},
                                                 {PathKind::kCopy, 1}}));
  EXPECT_EQ(PathOfALateGather(true, false), (Sums{{PathKind::kHost, 1 + 5},
                                                  {PathKind::kTransfer, 9 + 15},
                                                  {PathKind::kCompute, 40 + 20}}));
  // A host that waited for nothing was busy all the time.
  for (const bool gather_needs_copy : {true, false}) {
    EXPECT_EQ(
        PathOfALateGather(false, gather_needs_copy),
        (Sums{{PathKind::kHost, 1 + 45}, {PathKind::kTransfer, 9 + 15}, {PathKind::kCompute, 20}}));
  }
}

// In the lesson the host waits for every compute op: while that runs it is compute, and what is of
// the host is no more than what was idle.
TEST(CriticalPath, OfAHostThatWaitsForComputeHasForwardOnIt) {
  const query::SnapshotPtr lesson = MakeLessonSnapshot(2, 8, 99);
  std::map<std::pair<int32_t, int32_t>, StepBreakdown> steps;  // by rank and step
  for (const StepBreakdown& row : Breakdowns(*lesson)) steps[{row.rank, row.step}] = row;
  for (int32_t step = 0; step < 8; ++step) {
    int64_t forward_ns = 0;
    std::map<int32_t, int64_t> host_ns;  // by rank
    for (const PathPart& part : CriticalPath(*lesson, step, step)) {
      const int64_t length_ns = part.end_ns - part.start_ns;
      if (part.kind == PathKind::kHost) host_ns[part.rank] += length_ns;
      if (part.kind == PathKind::kCompute && part.phase == "forward") forward_ns += length_ns;
    }
    EXPECT_GT(forward_ns, 15 * kMs) << step;  // of some 19
    for (const auto& [rank, ns] : host_ns) {
      const StepBreakdown& row = steps.at({rank, step});
      EXPECT_LE(ns, row.time.idle_ns + row.step_ns / 50) << "step " << step << " rank " << rank;
    }
  }
}

TEST(CriticalPath, OfOneStepHasItsOpsAndItsSums) {
  const FrontRun run(3, 5, false, Injection{1, "data", 20 * kMs, -1});
  const query::Snapshot& snapshot = run.snapshot();
  ASSERT_EQ(NewestStepOfAll(snapshot), kSteps - 1);
  for (int32_t step = 0; step < kSteps; ++step) {
    const StepPath path = PathOfStep(snapshot, step);
    EXPECT_EQ(path.step, step);
    ASSERT_FALSE(path.parts.empty());
    double sum_ns = 0;
    for (const PathGroup& group : path.groups) sum_ns += group.ns_per_step;
    EXPECT_DOUBLE_EQ(sum_ns, static_cast<double>(run.step_ns(step)));
    const auto expected = GroupPath(PathShares(snapshot, step, step));
    ASSERT_EQ(path.groups.size(), expected.size());
    for (size_t at = 0; at < expected.size(); ++at) {
      EXPECT_EQ(path.groups[at].name, expected[at].name);
      EXPECT_DOUBLE_EQ(path.groups[at].ns_per_step, expected[at].ns_per_step);
    }
    for (const PathPart& part : path.parts) {
      if (part.name == "end") continue;
      // The op that it names is of that rank and step.
      const query::RankRows* rows = snapshot.FindRank(part.rank);
      const auto found = std::ranges::find(rows->op_runs, part.op_run, &query::OpRun::id);
      ASSERT_NE(found, rows->op_runs.end());
      EXPECT_EQ(found->step, step);
      EXPECT_LE(part.end_ns, found->ended_ns);
    }
  }
  EXPECT_TRUE(PathOfStep(snapshot, kSteps).parts.empty());
  EXPECT_EQ(NewestStepOfAll(query::Snapshot()), -1);
}

}  // namespace
}  // namespace shardscope::analysis
