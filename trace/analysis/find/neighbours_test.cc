#include "trace/analysis/find/neighbours.h"

#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

// Of both ranks in two steps: an all-gather, its copy-out, a forward; in the first step rank 1
// arrives late.
class NeighboursTest : public testing::Test {
 protected:
  NeighboursTest() : test_(2) {
    gather_ = test_.Plan("all_gather", "forward", "block0");
    copy_ = test_.Plan("copy_out", "forward", "block0", "", {gather_});
    forward_ = test_.Plan("forward", "forward", "", "block0.mlp", {copy_});
    for (int32_t rank : {0, 1}) {
      for (int32_t step : {0, 1}) {
        const int64_t begin = step * 100;
        Add(rank, step, gather_, begin + (step == 0 ? 10 * rank : 0), begin + 30);
        Add(rank, step, copy_, begin + 30, begin + 40).blocking_plan_op = gather_;
        Add(rank, step, forward_, begin + 40, begin + 90).blocking_plan_op = copy_;
        test_.Step(rank, step, begin, begin + 100);
      }
    }
  }

  query::OpRun& Add(int32_t rank, int32_t step, query::PlanOpId op, int64_t start, int64_t end) {
    return test_.Run(rank, step, op, start, end);
  }

  // The run of `op` in that step.
  SearchHit Hit(const query::Snapshot& snapshot, int32_t rank, int32_t step,
                query::PlanOpId op) const {
    const query::RankRows& rows = *snapshot.FindRank(rank);
    for (size_t row = 0; row < rows.op_runs.size(); ++row) {
      const query::OpRun& run = rows.op_runs[row];
      if (run.step == step && run.plan_op == op) return HitOf(rows, HitKind::kOp, row);
    }
    ADD_FAILURE() << "not run";
    return {};
  }

  TestSnapshot test_;
  query::PlanOpId gather_, copy_, forward_;
};

TEST_F(NeighboursTest, StepsThroughWhatHasTheSameNameOnItsRank) {
  const query::SnapshotPtr snapshot = test_.Build();
  for (const query::PlanOpId op : {gather_, copy_, forward_}) {
    const SearchHit first = Hit(*snapshot, 1, 0, op);
    const SearchHit second = Hit(*snapshot, 1, 1, op);
    EXPECT_EQ(OfSameName(*snapshot, first, 1), second);
    EXPECT_EQ(OfSameName(*snapshot, second, -1), first);
    EXPECT_EQ(OfSameName(*snapshot, first, -1), std::nullopt);
    EXPECT_EQ(OfSameName(*snapshot, second, 1), std::nullopt);
  }
}

TEST_F(NeighboursTest, ANewScheduleKeepsNames) {
  test_.NextSchedule("after a change");
  const query::PlanOpId again = test_.Plan("all_gather", "forward", "block0");
  test_.Run(0, 2, again, 200, 210);
  const query::SnapshotPtr snapshot = test_.Build();
  EXPECT_EQ(OfSameName(*snapshot, Hit(*snapshot, 0, 1, gather_), 1), Hit(*snapshot, 0, 2, again));
}

TEST_F(NeighboursTest, FollowsWhatOpsWaitedFor) {
  const query::SnapshotPtr snapshot = test_.Build();
  const SearchHit gather = Hit(*snapshot, 0, 1, gather_);
  const SearchHit copy = Hit(*snapshot, 0, 1, copy_);
  const SearchHit forward = Hit(*snapshot, 0, 1, forward_);
  EXPECT_EQ(WaitedFor(*snapshot, forward), copy);
  EXPECT_EQ(WaitedFor(*snapshot, copy), gather);
  EXPECT_EQ(WaitedFor(*snapshot, gather), std::nullopt);  // both ranks came at once
  EXPECT_EQ(WaitsFor(*snapshot, gather), forward);        // its first use, as the arrow has it
  EXPECT_EQ(WaitsFor(*snapshot, copy), forward);
  EXPECT_EQ(WaitsFor(*snapshot, forward), std::nullopt);
}

TEST_F(NeighboursTest, ACollectiveWaitsForTheRankThatArrivesLast) {
  const query::SnapshotPtr snapshot = test_.Build();
  EXPECT_EQ(WaitedFor(*snapshot, Hit(*snapshot, 0, 0, gather_)), Hit(*snapshot, 1, 0, gather_));
  EXPECT_EQ(WaitedFor(*snapshot, Hit(*snapshot, 1, 0, gather_)), std::nullopt);
}

TEST_F(NeighboursTest, PairsLeadToEachOther) {
  const query::PlanOpId send = test_.Plan("send", "forward");
  const query::PlanOpId receive = test_.Plan("receive", "forward");
  test_.op(send).op_class = test_.op(receive).op_class = query::OpClass::kSendReceive;
  test_.Run(0, 2, send, 200, 220);
  test_.last_collective(0).sequence = 77;
  test_.Run(1, 2, receive, 205, 220);
  test_.last_collective(1).sequence = 77;
  const query::SnapshotPtr snapshot = test_.Build();
  EXPECT_EQ(WaitsFor(*snapshot, Hit(*snapshot, 0, 2, send)), Hit(*snapshot, 1, 2, receive));
  EXPECT_EQ(WaitedFor(*snapshot, Hit(*snapshot, 1, 2, receive)), Hit(*snapshot, 0, 2, send));
}

TEST_F(NeighboursTest, KernelsAndRangesGoByTheirNameToo) {
  query::RankRows& rows = test_.snapshot().ranks[0];
  for (int i = 0; i < 6; ++i) {
    query::GpuWork work;
    work.id = query::SpanId(i + 1);
    work.name = i % 2;
    work.start_ns = i * 10;
    rows.gpu_work.Append(work);
    query::Span range;
    range.id = query::SpanId(i + 101);
    range.name = i % 3;
    range.start_ns = i * 10;
    rows.spans.Append(range);
  }
  const query::SnapshotPtr snapshot = test_.Build();
  const query::RankRows& built = *snapshot->FindRank(0);
  EXPECT_EQ(OfSameName(*snapshot, HitOf(built, HitKind::kWork, 1), 1),
            HitOf(built, HitKind::kWork, 3));
  EXPECT_EQ(OfSameName(*snapshot, HitOf(built, HitKind::kWork, 1), -1), std::nullopt);
  EXPECT_EQ(OfSameName(*snapshot, HitOf(built, HitKind::kRange, 4), -1),
            HitOf(built, HitKind::kRange, 1));
  EXPECT_EQ(WaitedFor(*snapshot, HitOf(built, HitKind::kWork, 1)), std::nullopt);
}

TEST_F(NeighboursTest, ARangeWhoseEndWasNotSeenHasTheNameOfThoseWhoseEndWas) {
  query::Snapshot& made = test_.snapshot();
  const auto first = static_cast<int32_t>(made.names.size());
  for (const char* name : {"all_gather", "all_gather (not ended)", "all_reduce"}) {
    made.names.Append(name);
  }
  for (const int32_t name : {0, 2, 1}) {
    query::Span range;
    range.id = query::SpanId(name + 101);
    range.name = first + name;
    range.start_ns = static_cast<int64_t>(made.ranks[0].spans.size()) * 10;
    made.ranks[0].spans.Append(range);
  }
  const query::SnapshotPtr snapshot = test_.Build();
  const query::RankRows& rows = *snapshot->FindRank(0);
  const SearchHit ended = HitOf(rows, HitKind::kRange, 0);
  const SearchHit open = HitOf(rows, HitKind::kRange, 2);
  EXPECT_EQ(OfSameName(*snapshot, ended, 1), open);
  EXPECT_EQ(OfSameName(*snapshot, open, -1), ended);
  EXPECT_EQ(OfSameName(*snapshot, HitOf(rows, HitKind::kRange, 1), 1), std::nullopt);
}

// Each step forward and back ends where it began, and every op of a name is met.
TEST(Neighbours, MeetsEveryRunOfAName) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 12, 6);
  const query::RankRows& rows = snapshot->ranks[1];
  for (size_t row = 0; row < 60; row += 7) {
    const std::string& name = snapshot->FindPlanOp(rows.op_runs[row].plan_op)->name;
    int64_t expected = 0;
    for (const query::OpRun& run : rows.op_runs) {
      expected += snapshot->FindPlanOp(run.plan_op)->name == name ? 1 : 0;
    }
    SearchHit hit = HitOf(rows, HitKind::kOp, row);
    while (const auto before = OfSameName(*snapshot, hit, -1)) hit = *before;
    int64_t met = 1;
    while (const auto next = OfSameName(*snapshot, hit, 1)) {
      EXPECT_GE(next->start_ns, hit.start_ns);
      EXPECT_EQ(OfSameName(*snapshot, *next, -1), hit);
      hit = *next;
      ++met;
    }
    EXPECT_EQ(met, expected) << name;
  }
}

}  // namespace
}  // namespace shardscope::analysis
