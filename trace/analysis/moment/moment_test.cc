#include "trace/analysis/moment/moment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/from_start.h"
#include "trace/analysis/moment/moment_words.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/breakdown.h"

namespace shardscope::analysis {
namespace {

using query::MemoryCategory;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kUs = 1000;

// One step of two ranks; times in us.
//
//   rank 0   F block0 0-100, copy-out 100-110, waits, F block1 200-300     AG block1 40-190
//   rank 1   F block0 0-60,  waits,            F block1 200-300            AG block1 70-190
class MomentTest : public testing::Test {
 protected:
  MomentTest() : test_(2) {
    forward0_ = test_.Plan("forward", "forward", "", "block0");
    gather_ = test_.Plan("all_gather", "forward", "block1");
    copy_ = test_.Plan("copy_out", "forward", "block0");
    forward1_ = test_.Plan("forward", "forward", "", "block1", {gather_});
    Run(0, forward0_, 0, 100);
    Run(0, copy_, 100, 110);
    Run(0, gather_, 40, 190);
    Waiting(Run(0, forward1_, 200, 300));
    Run(1, forward0_, 0, 60);
    Run(1, gather_, 70, 190);
    Waiting(Run(1, forward1_, 200, 300));
    test_.Step(0, 0, 0, 310 * kUs);
    test_.Step(1, 0, 0, 310 * kUs);
  }

  query::OpRun& Run(int32_t rank, query::PlanOpId op, int64_t from_us, int64_t to_us) {
    return test_.Run(rank, 0, op, from_us * kUs, to_us * kUs);
  }
  void Waiting(query::OpRun& run) const {
    run.issued_ns = 0;
    run.ready_ns = 190 * kUs;
    run.blocking_kind = query::BlockingKind::kStream;
    run.blocking_plan_op = gather_;
  }

  Moment At(int64_t us, Interval range = {0, 310 * kUs}) {
    snapshots_.push_back(test_.Build());
    return Moments(snapshots_.back(), range).At(us * kUs);
  }
  static std::string Words(const RankMoment& moment) {
    return MomentSentence(moment, EnglishMomentWords());
  }

  TestSnapshot test_;
  std::vector<query::SnapshotPtr> snapshots_;  // moments point into them
  query::PlanOpId forward0_, gather_, copy_, forward1_;
};

TEST_F(MomentTest, SaysWhatComputesAndWhatItHides) {
  const Moment moment = At(50);
  ASSERT_EQ(moment.ranks.size(), 2u);
  const RankMoment& rank = moment.ranks[0];
  EXPECT_EQ(rank.state, RankState::kComputes);
  EXPECT_EQ(rank.step, 0);
  ASSERT_EQ(rank.compute.size(), 1u);
  EXPECT_EQ(rank.compute[0].op->id, forward0_);
  EXPECT_DOUBLE_EQ(rank.compute[0].done, 0.5);
  ASSERT_EQ(rank.communication.size(), 1u);
  EXPECT_TRUE(rank.hides());
  EXPECT_FALSE(rank.exposes());
  // Rank 1 comes to the collective at 70.
  EXPECT_EQ(rank.communication[0].awaited_rank, 1);
  EXPECT_EQ(Words(rank),
            "rank 0 computes forward of block0 while the all-gather of block1 (rank 1 has not "
            "come) is under way, hidden behind it");
  EXPECT_EQ(Words(At(85).ranks[0]),
            "rank 0 computes forward of block0 while the all-gather of block1 (30% done) is under "
            "way, hidden behind it");
  EXPECT_EQ(Words(At(20).ranks[0]), "rank 0 computes forward of block0");
}

TEST_F(MomentTest, SaysWhatIsWaitedForAndWhy) {
  const RankMoment rank = At(130).ranks[1];
  EXPECT_EQ(rank.state, RankState::kWaits);
  EXPECT_TRUE(rank.exposes());
  ASSERT_TRUE(rank.stall.has_value());
  EXPECT_EQ(rank.awaited->id, gather_);
  EXPECT_EQ(Words(rank), "rank 1 waits for the all-gather of block1 (50% done): exposed; " +
                             rank.stall->sentence);
  EXPECT_FALSE(rank.stall->sentence.empty());
  // Its stream is dry, and the collective has not begun.
  EXPECT_THAT(Words(At(65).ranks[1]),
              HasSubstr("rank 1 waits for the all-gather of block1, which has not begun; "));
  EXPECT_FALSE(At(65).ranks[1].exposes());
}

TEST_F(MomentTest, CopiesHideNothing) {
  const RankMoment rank = At(105).ranks[0];
  EXPECT_EQ(rank.state, RankState::kNoCompute);
  ASSERT_EQ(rank.copies.size(), 1u);
  EXPECT_EQ(Words(rank),
            "rank 0 runs copy-out of block0 while the all-gather of block1 (43% done) is under "
            "way: exposed");
}

TEST_F(MomentTest, AnOpRunsFromItsStartUpToButNotAtItsEnd) {
  EXPECT_EQ(At(0).ranks[0].compute.size(), 1u);
  EXPECT_EQ(At(100).ranks[0].compute.size(), 0u);
  EXPECT_EQ(At(40).ranks[0].communication.size(), 1u);
  EXPECT_EQ(At(190).ranks[0].communication.size(), 0u);
}

TEST_F(MomentTest, OutsideOfStepsThatIsSaid) {
  EXPECT_EQ(At(400).ranks[0].state, RankState::kNothing);
  EXPECT_EQ(Words(At(400).ranks[0]), "nothing of rank 0 is recorded here");
  test_.Run(0, 1, forward0_, 500 * kUs, 600 * kUs);
  test_.Step(0, 1, 500 * kUs, 600 * kUs);
  const Moment paused = At(400, {0, 600 * kUs});
  EXPECT_EQ(paused.ranks[0].state, RankState::kBetweenSteps);
  EXPECT_EQ(paused.ranks[0].step, -1);
  EXPECT_EQ(Words(paused.ranks[0]), "rank 0 is between two steps");
}

TEST_F(MomentTest, WaitingForASlotIsNoCommunication) {
  const query::PlanOpId last = test_.Plan("forward", "forward", "", "head");
  query::OpRun& run = Run(0, last, 400, 500);
  run.ready_ns = 300 * kUs;
  run.slot_wait_ns = 90 * kUs;
  run.blocking_kind = query::BlockingKind::kSlot;
  test_.Step(0, 1, 310 * kUs, 500 * kUs);
  run.step = 1;
  const RankMoment rank = At(390, {0, 500 * kUs}).ranks[0];
  EXPECT_EQ(rank.state, RankState::kWaitsForSlot);
  EXPECT_EQ(Words(rank), "rank 0 waits for a compute slot");
}

TEST_F(MomentTest, LiveBytesAreThoseUntilThenByCategoryAndUnit) {
  const auto parameter = MemoryCategory::kUnshardedParameter;
  test_.Memory(0, MemoryCategory::kParameterShard, 0, 100);
  test_.Memory(0, parameter, 10 * kUs, 40, "block0");
  test_.Memory(0, parameter, 20 * kUs, 50, "block1");
  test_.Memory(0, parameter, 30 * kUs, -40, "block0");
  test_.Memory(0, MemoryCategory::kHost, 25 * kUs, 7, "block1");
  // Before the range, in it, and at its own moment.
  for (const Interval range : {Interval{0, 310 * kUs}, Interval{25 * kUs, 26 * kUs}}) {
    const RankMoment rank = At(25, range).ranks[0];
    ASSERT_TRUE(rank.has_memory);
    EXPECT_EQ(rank.live_bytes, 190);
    EXPECT_EQ(rank.live[static_cast<size_t>(parameter)], 90);
    EXPECT_EQ(rank.live[static_cast<size_t>(MemoryCategory::kHost)], 7);
    EXPECT_EQ(rank.live_of_units.at({parameter, "block1"}), 50);
    EXPECT_EQ(rank.live_of_units.size(), 4u);
  }
  EXPECT_EQ(At(30).ranks[0].live_bytes, 150);
  EXPECT_FALSE(At(30).ranks[0].live_of_units.contains({parameter, "block0"}));
  EXPECT_FALSE(At(25).ranks[1].has_memory);
}

TEST_F(MomentTest, BoundariesAreWhereOpsBeginAndEnd) {
  const Moments moments(test_.Build(), {50 * kUs, 200 * kUs});
  EXPECT_THAT(moments.boundaries(), ElementsAre(50 * kUs, 60 * kUs, 70 * kUs, 100 * kUs, 110 * kUs,
                                                190 * kUs, 200 * kUs));
}

TEST_F(MomentTest, TimesAreReadFromTheStartOfTheRunOrOfAStep) {
  test_.Run(0, 1, forward0_, 310 * kUs, 600 * kUs);
  test_.Step(0, 1, 310 * kUs, 600 * kUs);
  const query::SnapshotPtr snapshot = test_.Build();
  const auto at = [&](const char* text) { return ParseMoment(*snapshot, text); };
  EXPECT_EQ(at("50us").value(), 50 * kUs);
  EXPECT_EQ(at("step=1").value(), 310 * kUs);
  EXPECT_EQ(at("step=1+40us").value(), 350 * kUs);
  EXPECT_EQ(at("0").value(), 0);
  // As lists of the command line and of the app write them.
  EXPECT_EQ(at((SecondsFromStart(*snapshot, 350 * kUs) + " s").c_str()).value(), 350 * kUs);
  EXPECT_EQ(at("50.0 \xC2\xB5s").value(), 50 * kUs);
  EXPECT_EQ(at("0.350 ms").value(), 350 * kUs);
  for (const char* text : {"", "12", "x", "step=", "step=1+", "step=1+4", "step=1-4us", "step=x",
                           "step=-1", "-3us", "step=1 +4us"}) {
    ASSERT_FALSE(at(text).ok()) << text;
    EXPECT_THAT(at(text).message(), HasSubstr("step=3+4.2ms")) << text;
  }
  EXPECT_EQ(StepOfMoment("step=3+4.2ms"), 3);
  EXPECT_EQ(StepOfMoment("12.5s"), std::nullopt);
  EXPECT_EQ(at("step=7").message(), "no step 7: this trace has the steps 0 to 1");
  EXPECT_EQ(at("1s").message(), "1s: the run ends 600 us from its start");
  // Of the whole run, where a part of it is loaded.
  query::Snapshot some = *snapshot;
  some.part = query::RunPart{1, 1, 0, 9, 1};
  some.part->start_ns = -100 * kUs;
  some.part->end_ns = 5000 * kUs;
  some.part->step_starts = std::make_shared<std::vector<query::RunPart::StepStart>>(
      std::vector<query::RunPart::StepStart>{{0, 0}, {7, 4000 * kUs}});
  EXPECT_EQ(ParseMoment(some, "50us").value(), -50 * kUs);
  EXPECT_EQ(ParseMoment(some, "step=7+40us").value(), 4040 * kUs);
  EXPECT_EQ(ParseMoment(some, "step=1+40us").value(), 350 * kUs);
  EXPECT_EQ(ParseMoment(some, "1s").message(), "1s: the run ends 5.10 ms from its start");
  EXPECT_EQ(FinishedStepAt(*snapshot, 309 * kUs), 0);
  EXPECT_EQ(FinishedStepAt(*snapshot, 310 * kUs), 1);
  EXPECT_EQ(FinishedStepAt(*snapshot, 600 * kUs), -1);
}

TEST_F(MomentTest, ARunWithoutRowsHasNoMoments) {
  const auto empty = std::make_shared<query::Snapshot>();
  EXPECT_TRUE(Moments(empty, {0, 100}).At(50).ranks.empty());
  const query::SnapshotPtr ranks = TestSnapshot(2).Build();
  EXPECT_EQ(Moments(ranks, {0, 100}).At(50).ranks[1].state, RankState::kNothing);
}

// Added up over a whole step, the moments are its breakdown; its memory is that of the timeline.
TEST(Moments, AddUpToTheBreakdownAndTheMemoryOfTheStep) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 8, 4);
  int64_t all_exposed_ns = 0;
  int64_t all_overlap_ns = 0;
  for (const StepBreakdown& row : Breakdowns(*snapshot)) {
    if (row.step != 3 && row.step != 6) continue;
    const Moments moments(snapshot, {row.start_ns, row.end_ns});
    MemoryTimeline memory(row.rank, Ledger::kExecution);
    memory.Advance(*snapshot);
    int64_t compute_ns = 0;
    int64_t exposed_ns = 0;
    int64_t overlap_ns = 0;
    const std::vector<int64_t>& times = moments.boundaries();
    for (size_t at = 0; at + 1 < times.size(); ++at) {
      const RankMoment rank = moments.At(times[at]).ranks[static_cast<size_t>(row.rank)];
      const int64_t length_ns = times[at + 1] - times[at];
      if (rank.state == RankState::kComputes) compute_ns += length_ns;
      if (rank.hides()) overlap_ns += length_ns;
      if (rank.exposes()) exposed_ns += length_ns;
      const MemoryTimeline::Point live = memory.At(memory.FirstAt(times[at] + 1) - 1);
      EXPECT_EQ(rank.live, live.bytes);
      EXPECT_EQ(rank.live_bytes, live.total);
    }
    EXPECT_EQ(compute_ns, row.time.compute_ns);
    EXPECT_EQ(exposed_ns, row.time.exposed_ns);
    EXPECT_EQ(overlap_ns, row.time.overlap_ns);
    all_exposed_ns += exposed_ns;
    all_overlap_ns += overlap_ns;
  }
  EXPECT_GT(all_exposed_ns, 0);
  EXPECT_GT(all_overlap_ns, 0);
}

}  // namespace
}  // namespace shardscope::analysis
