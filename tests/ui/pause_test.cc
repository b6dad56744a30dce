// A run that was paused: the gap is drawn by its name, and no figure contains it.
#include <gtest/gtest.h>

#include "tests/ui/harness.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/base/time.h"
#include "ui/panels/timeline/timeline_panel.h"

namespace shardscope::ui_test {
namespace {

constexpr int64_t kStepNs = 100 * kNsPerMs;
constexpr int64_t kPauseNs = 300 * kNsPerMs;
constexpr int kPausedBefore = 3;

// Two ranks, six steps of which an all-gather takes the first half; paused before step 3.
analysis::TestSnapshot PausedRun() {
  analysis::TestSnapshot test(2);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp", {gather});
  for (const int rank : {0, 1}) {
    for (int step = 0; step < 6; ++step) {
      const int64_t start_ns = step * kStepNs + (step >= kPausedBefore ? kPauseNs : 0);
      test.Run(rank, step, gather, start_ns, start_ns + kStepNs / 2);
      test.Run(rank, step, forward, start_ns + kStepNs / 2, start_ns + kStepNs).blocking_plan_op =
          gather;
      test.Step(rank, step, start_ns, start_ns + kStepNs);
    }
    const int64_t end_ns = kPausedBefore * kStepNs;
    test.snapshot().ranks[static_cast<size_t>(rank)].pauses = {
        {kPausedBefore, query::PauseCause::kUser, end_ns, end_ns + kPauseNs}};
  }
  return test;
}

class PauseTest : public testing::Test {
 protected:
  void Open(analysis::TestSnapshot test) {
    harness_.shell().OpenSnapshot(test.Build());
    harness_.Frames(8);
    const query::Snapshot& snapshot = *harness_.context().snapshot;
    harness_.shell().Post(ui::SetView{snapshot.start_ns, snapshot.end_ns, false, false});
    harness_.Frames(8);
  }
  const ui::DrawnItem* Drawn(const char* id) const { return harness_.log().Find("timeline", id); }

  Harness harness_;
};

TEST_F(PauseTest, IsDrawnByNameInLanesRulerAndMinimap) {
  Open(PausedRun());
  const ui::DrawnItem* lanes = Drawn("pause0:3");
  ASSERT_NE(lanes, nullptr);
  ASSERT_NE(Drawn("pause1:3"), nullptr);
  for (const char* id : {"pause0:3", "pause1:3", "ruler_pause:3", "minimap_pause:3"}) {
    const ui::DrawnItem* drawn = Drawn(id);
    ASSERT_NE(drawn, nullptr) << id;
    EXPECT_EQ(drawn->text, "paused") << id;
    EXPECT_EQ(std::get<int64_t>(drawn->value), kPauseNs) << id;
    EXPECT_FLOAT_EQ(drawn->box.x0, lanes->box.x0) << id;
    EXPECT_FLOAT_EQ(drawn->box.x1, lanes->box.x1) << id;
  }
  // A third of the run, at its place.
  const ui::Box minimap = Drawn("minimap")->box;
  EXPECT_NEAR(lanes->box.x1 - lanes->box.x0, (minimap.x1 - minimap.x0) / 3, 1);
  EXPECT_NEAR(lanes->box.x0, minimap.x0 + (minimap.x1 - minimap.x0) / 3, 1);
}

TEST_F(PauseTest, HoveringSaysHowLongAndBetweenWhichSteps) {
  Open(PausedRun());
  const ui::View& view = harness_.context().view;
  const timeline::Axis axis({view.start_ns, view.end_ns}, 0, 900);
  const panels::TooltipText text = panels::TooltipOfPause(harness_.context(), axis, 1, 450);
  EXPECT_EQ(text.title, "paused  300 ms");
  EXPECT_EQ(text.detail, "between steps 2 and 3, in neither");
  EXPECT_TRUE(panels::TooltipOfPause(harness_.context(), axis, 1, 100).title.empty());
}

TEST_F(PauseTest, IsInNoStepAndNoStall) {
  Open(PausedRun());
  const analysis::Report& report = *harness_.context().report;
  for (const analysis::StepBreakdown& step : report.steps) EXPECT_EQ(step.step_ns, kStepNs);
  for (const analysis::StallGroup& stall : report.figures.stalls) {
    EXPECT_LT(stall.worst.stall_ns, kStepNs);
  }
}

TEST_F(PauseTest, WhatIsStillPausedIsDrawnToTheEdge) {
  analysis::TestSnapshot test = PausedRun();
  test.snapshot().state = query::TraceState::kLive;
  test.snapshot().paused = true;
  Open(std::move(test));
  const query::Snapshot& snapshot = *harness_.context().snapshot;
  harness_.shell().Post(ui::SetView{snapshot.start_ns, snapshot.end_ns + kPauseNs, false, false});
  harness_.Frames(8);
  const ui::DrawnItem* open = Drawn("pause0:6");
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->text, "paused");
  EXPECT_FLOAT_EQ(open->box.x1, Drawn("minimap")->box.x1);
  const ui::View& view = harness_.context().view;
  const timeline::Axis axis({view.start_ns, view.end_ns}, 0, 1200);
  EXPECT_EQ(panels::TooltipOfPause(harness_.context(), axis, 0, 1100).detail,
            "training waits to be resumed");
}

}  // namespace
}  // namespace shardscope::ui_test
