#include "ui/timeline/facts.h"

#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/minimap.h"

namespace shardscope::timeline {
namespace {

Range RangeOfSteps(const query::Snapshot& snapshot, size_t first, size_t last) {
  const auto& steps = snapshot.ranks[0].steps;
  return {steps[first].start_ns, steps[last].end_ns};
}

TEST(MostInstructiveOpTest, AfterAChangeItIsAHiddenAllGather) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 12, 6);
  const auto op = MostInstructiveOp(*snapshot, RangeOfSteps(*snapshot, 5, 7));
  ASSERT_TRUE(op.has_value());
  const OpFacts facts = FactsOf(*snapshot, 0, *op);
  ASSERT_TRUE(facts.found);
  EXPECT_EQ(facts.op.op_class, query::OpClass::kAllGather);
  EXPECT_GE(facts.run.step, 6);
  ASSERT_TRUE(facts.slack.found);
  EXPECT_GT(facts.slack.slack_ns, 0);
  EXPECT_GT(LinkHeadroom(facts), 1);
}

TEST(MostInstructiveOpTest, WithoutAChangeItIsBehindTheDearestStall) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 12, 6);
  const Range range = RangeOfSteps(*snapshot, 2, 4);
  const auto op = MostInstructiveOp(*snapshot, range);
  ASSERT_TRUE(op.has_value());
  const OpFacts facts = FactsOf(*snapshot, 0, *op);
  ASSERT_TRUE(facts.stall.has_value());
  EXPECT_LE(facts.slack.slack_ns, 0);
  EXPECT_EQ(LinkHeadroom(facts), 0);
  for (const analysis::Stall& stall : analysis::Stalls(*snapshot, 2, 4)) {
    const bool counts = stall.rank == 0 && stall.end_ns <= range.end_ns &&
                        stall.blocking_name.find("all_gather") != std::string::npos;
    if (counts) {
      EXPECT_LE(stall.stall_ns, facts.stall->stall_ns);
    }
  }
}

TEST(MostInstructiveOpTest, WhatOpsAreCalledDecidesNothing) {
  query::Snapshot snapshot = *analysis::MakeLessonSnapshot(2, 12, 6);
  const Range range = RangeOfSteps(snapshot, 2, 4);
  const auto op = MostInstructiveOp(snapshot, range);
  ASSERT_TRUE(op.has_value());
  for (auto& [id, plan_op] : snapshot.plan_ops) plan_op.name = "all_gather_of_reduce";
  EXPECT_EQ(MostInstructiveOp(snapshot, range), op);
}

TEST(MostInstructiveOpTest, NothingInAnEmptyView) {
  EXPECT_FALSE(MostInstructiveOp(query::Snapshot(), {0, 100}).has_value());
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(1, 3, 9);
  EXPECT_FALSE(MostInstructiveOp(*snapshot, {0, 1}).has_value());
}

TEST(FactsTest, TheTypeOfParametersIsTheRunsOrTheCollectives) {
  query::Snapshot snapshot = *analysis::MakeLessonSnapshot(1, 3, 9);
  const query::OpRun run = snapshot.ranks[0].op_runs[0];
  const auto is_half = [&] { return FactsOf(snapshot, 0, run.id).has_half_parameters; };
  snapshot.config.erase("precision.param");
  EXPECT_FALSE(is_half());
  snapshot.plan_ops.at(run.plan_op).dtype = "bf16";
  EXPECT_TRUE(is_half());
  snapshot.config["precision.param"] = "fp32";
  EXPECT_FALSE(is_half());
  snapshot.config["precision.param"] = "fp16";
  EXPECT_TRUE(is_half());
}

TEST(FactsTest, UnknownOpIsNotFound) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(1, 3, 9);
  EXPECT_FALSE(FactsOf(*snapshot, 0, query::OpRunId(1'000'000)).found);
  EXPECT_FALSE(FactsOf(*snapshot, 5, query::OpRunId(1)).found);
}

TEST(FactsTest, AreOfOneOpRunOfOneRank) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 3, 9);
  const query::OpRun run = snapshot->ranks[1].op_runs[0];
  const OpFacts facts = FactsOf(*snapshot, 1, run.id);
  ASSERT_TRUE(facts.found);
  EXPECT_TRUE(AreFactsOf(facts, 1, run.id));
  EXPECT_FALSE(AreFactsOf(facts, 0, run.id));
  EXPECT_FALSE(AreFactsOf(facts, 1, query::OpRunId::None()));
  EXPECT_FALSE(AreFactsOf(OpFacts(), OpFacts().run.rank, OpFacts().run.id));
}

TEST(FactsTest, AreSettledOnceALaterStepOfTheRankIsOver) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 3, 9);
  OpFacts facts;
  facts.run.rank = 1;
  facts.run.step = 1;
  EXPECT_TRUE(AreSettled(facts, *snapshot));
  facts.run.step = 2;  // the last one
  EXPECT_FALSE(AreSettled(facts, *snapshot));
  facts.run.step = 1;
  facts.run.rank = 5;
  EXPECT_FALSE(AreSettled(facts, *snapshot));
  EXPECT_FALSE(AreSettled(facts, query::Snapshot()));
}

TEST(LabelsTest, QualifiedNamesAreShortenedFromTheLeft) {
  query::PlanOp op;
  op.op_class = query::OpClass::kBackward;
  op.phase = "backward";
  op.segment = "block3.attention";
  EXPECT_EQ(LabelOf(op).full, "B block3.attention");
  EXPECT_EQ(LabelOf(op).shorter, "B attention");
  op.op_class = query::OpClass::kAllGather;
  op.segment.clear();
  op.unit = "block3";
  EXPECT_EQ(LabelOf(op).full, "block3");
}

TEST(LabelsTest, TheLongestThatFitsIsChosen) {
  EXPECT_EQ(FitLabel(120, 100, 60), LabelFit::kFull);
  EXPECT_EQ(FitLabel(80, 100, 60), LabelFit::kShorter);
  EXPECT_EQ(FitLabel(40, 100, 60), LabelFit::kClipped);
  EXPECT_EQ(FitLabel(23, 10, 10), LabelFit::kNone);
}

query::Marker Change(int32_t step, const std::string& key, const std::string& from,
                     const std::string& to) {
  return {step * 100, step, "change", key, from, to};
}

TEST(LabelsTest, ChangesOfOneStepStandTogether) {
  query::Snapshot snapshot;
  snapshot.markers = {Change(9, "link.bandwidth", "1GB/s", "2GB/s"),
                      Change(4, "prefetch.backward", "none", "pre"),
                      Change(4, "prefetch.forward", "0", "1"),
                      Change(2, "link.bandwidth", "auto:0.6", "812MB/s"),
                      {500, 5, "checkpoint", "", "", ""}};
  const std::vector<timeline::Change> changes = ChangesOf(snapshot);
  ASSERT_EQ(changes.size(), 2U);  // what `auto` found is no change of a knob
  EXPECT_EQ(changes[0].step, 4);
  EXPECT_EQ(ChangeLabel(changes[0].markers), "prefetch none → pre, 0 → 1");
  EXPECT_EQ(ChangeLabel(changes[1].markers), "link.bandwidth 1GB/s → 2GB/s");
  EXPECT_EQ(ChangeLabel({Change(1, "a.b", "1", "2"), Change(1, "c.d", "3", "4")}),
            "a.b 1 → 2, c.d 3 → 4");
}

TEST(MinimapTest, BarsCoverTheRunAndShowWhatIsExposed) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 40, 20);
  const auto steps = analysis::Breakdowns(*snapshot);
  for (const float width : {60.0F, 800.0F}) {
    const Axis axis({snapshot->start_ns, snapshot->end_ns}, 0, width);
    const std::vector<MinimapBar> bars = MakeMinimap(steps, 0, axis);
    ASSERT_FALSE(bars.empty());
    EXPECT_LE(bars.size(), static_cast<size_t>(width / 3) + 1);
    EXPECT_EQ(bars.front().first_step, 0);
    EXPECT_EQ(bars.back().last_step, 39);
    for (size_t at = 1; at < bars.size(); ++at) {
      EXPECT_EQ(bars[at].first_step, bars[at - 1].last_step + 1);
      EXPECT_LE(bars[at].exposed, bars[at].height);
    }
    EXPECT_GT(bars[bars.size() / 4].exposed, bars[bars.size() * 3 / 4].exposed);
  }
}

TEST(MinimapTest, NoBarReachesOverAPause) {
  std::vector<analysis::StepBreakdown> steps;
  for (int step = 0; step < 8; ++step) {
    const int64_t start_ns = step * 10 + (step >= 4 ? 9'920 : 0);
    steps.push_back({.step = step, .start_ns = start_ns, .end_ns = start_ns + 10, .step_ns = 10});
  }
  // A step is a tenth of a pixel wide: all of them would be one bar.
  const std::vector<MinimapBar> bars = MakeMinimap(steps, 0, Axis({0, 10'000}, 0, 100));
  ASSERT_EQ(bars.size(), 2U);
  EXPECT_EQ(bars[0].last_step, 3);
  EXPECT_LT(bars[0].x1, 1);
  EXPECT_GT(bars[1].x0, 99);
}

TEST(MinimapTest, DraggingKeepsTheLength) {
  const Axis axis({0, 10'000}, 0, 1'000);
  EXPECT_EQ(DragMinimap(axis, {2'000, 3'000}, 500, 400), (Range{4'600, 5'600}));
}

}  // namespace
}  // namespace shardscope::timeline
