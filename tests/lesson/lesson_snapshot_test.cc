#include "tests/lesson/lesson_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "trace/analysis/names.h"
#include "trace/analysis/report/report.h"

namespace shardscope::analysis {
namespace {

TEST(LessonSnapshot, PrefetchHidesCommunication) {
  const std::vector<StepBreakdown> rows = Breakdowns(*MakeLessonSnapshot(4, 24, 12));
  const Summary before = SummarizeRange(rows, 0, 11);
  const Summary after = SummarizeRange(rows, 12, 23);
  EXPECT_LT(after.exposed_ns.p50 * 3, before.exposed_ns.p50);
  EXPECT_LT(after.step_ns.p50, before.step_ns.p50);
  EXPECT_GT(after.overlap_ratio, before.overlap_ratio);
}

TEST(LessonSnapshot, IsTheSameEveryTime) {
  EXPECT_EQ(PrintReportJson(MakeReport(*MakeLessonSnapshot(3, 9, 4))),
            PrintReportJson(MakeReport(*MakeLessonSnapshot(3, 9, 4))));
}

TEST(LessonSnapshot, ShowsEveryLessonsCause) {
  std::set<StallCause> causes;
  for (const StallGroup& group : MakeReport(*MakeLessonSnapshot(4, 30, 15)).figures.stalls) {
    causes.insert(group.cause);
  }
  for (const StallCause cause :
       {StallCause::kFirstGather, StallCause::kQueuedBehind, StallCause::kLateRank,
        StallCause::kIssuedLate, StallCause::kSlowTransfer, StallCause::kTail}) {
    EXPECT_TRUE(causes.contains(cause)) << Name(cause);
  }
}

// What an engine's trace would promise: the panels rely on it.
TEST(LessonSnapshot, KeepsTheInvariantsOfATrace) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(3, 8, 4);
  for (const query::RankRows& rows : snapshot->ranks) {
    std::map<query::TrackId, int64_t> end_of_track;
    for (const query::OpRun& run : rows.op_runs) {
      EXPECT_LE(run.issued_ns, run.ready_ns);
      EXPECT_LE(run.ready_ns, run.started_ns);
      EXPECT_LE(run.started_ns, run.ended_ns);
      EXPECT_GE(run.started_ns, end_of_track[run.track]);  // a stream is in order
      end_of_track[run.track] = run.ended_ns;
    }
    for (size_t i = 1; i < rows.steps.size(); ++i) {
      EXPECT_EQ(rows.steps[i].start_ns, rows.steps[i - 1].end_ns);  // steps tile time
    }
    int64_t live = 0;
    for (const query::MemoryEvent& event : rows.memory) live += event.bytes;
    int64_t persistent = 0;
    for (const query::MemoryEvent& event : rows.memory) {
      if (!event.is_of_step) persistent += event.bytes;
    }
    EXPECT_EQ(live, persistent);  // every step frees what it allocates
  }
  for (const CollectiveRun& run : Collectives(*snapshot, 0, 7)) EXPECT_TRUE(run.complete);
}

TEST(LessonSnapshot, MemoryIsWhatItsSchedulesPredict) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 4, 2);
  int64_t predicted_bytes = 0;
  for (const auto& [schedule, traffic] : MakeReport(*snapshot).schedules) {
    EXPECT_GT(schedule.peak_bytes, 0);
    EXPECT_LE(schedule.peak_bytes, schedule.bound_bytes);
    predicted_bytes = std::max(predicted_bytes, schedule.predicted_bytes);
  }
  for (const MemoryPeak& rank : MemoryPeaks(*snapshot, Ledger::kIssue)) {
    EXPECT_EQ(rank.peak_bytes, predicted_bytes);
  }
}

TEST(LessonSnapshot, PrefetchesHaveSlack) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 4, 2);
  int negative_before = 0;
  int positive_after = 0;
  for (const query::OpRun& run : snapshot->ranks.front().op_runs) {
    if (snapshot->FindPlanOp(run.plan_op)->op_class != query::OpClass::kAllGather) continue;
    const PrefetchSlack slack = SlackOf(*snapshot, run.id, 0);
    ASSERT_TRUE(slack.found);
    if (run.step < 2) negative_before += slack.slack_ns < 0;
    if (run.step >= 2) positive_after += slack.slack_ns > 0;
  }
  EXPECT_GT(negative_before, 12);  // nearly all of 2 x 10
  EXPECT_GT(positive_after, 8);
}

}  // namespace
}  // namespace shardscope::analysis
