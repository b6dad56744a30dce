// The real panels, driven as a user would: zoom, select, follow, fold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/report/report.h"
#include "ui/scope.h"
#include "ui/values.h"

namespace shardscope::ui_test {
namespace {

class PanelsTest : public testing::Test {
 protected:
  void OpenLesson() {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
    harness_.Frames(8);
  }
  int64_t Span() const { return harness_.context().view.end_ns - harness_.context().view.start_ns; }
  // "op_run:0:1234" of the first op of `rank` that was drawn with a body wide enough to click.
  std::optional<ui::DrawnItem> WideOp(int rank) const {
    const std::string prefix = "op_run:" + std::to_string(rank) + ":";
    for (const ui::DrawnItem& item : harness_.log().items()) {
      if (item.panel == "timeline" && item.id.rfind(prefix, 0) == 0 &&
          item.box.x1 - item.box.x0 > 20) {
        return item;
      }
    }
    return std::nullopt;
  }
  static ImVec2 Middle(const ui::DrawnItem& item) {
    return {(item.box.x0 + item.box.x1) / 2, (item.box.y0 + item.box.y1) / 2};
  }

  Harness harness_;
};

TEST_F(PanelsTest, WithoutARunEveryPanelSaysWhatToDo) {
  for (const char* panel : {"timeline", "memory", "overlap", "details"}) {
    ASSERT_NE(harness_.log().Find(panel, "empty"), nullptr) << panel;
    EXPECT_FALSE(harness_.log().Find(panel, "empty")->text.empty()) << panel;
  }
  EXPECT_NE(harness_.log().Find("run_control", "notice"), nullptr);
}

TEST_F(PanelsTest, WhatCannotBeOpenedIsSaidWhereverItCameFrom) {
  OpenLesson();
  ASSERT_EQ(harness_.log().Find("runs", "error"), nullptr);
  harness_.shell().Post(ui::OpenRun{"/no/such/run"});  // as a drop on the window does
  harness_.Frames(4);
  const ui::DrawnItem* error = harness_.log().Find("runs", "error");
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->text, testing::HasSubstr("/no/such/run does not exist"));
  EXPECT_NE(harness_.context().snapshot, nullptr);  // what was open stays
}

TEST_F(PanelsTest, WheelZoomsAtTheCursorAndBackspaceUndoes) {
  OpenLesson();
  const auto op = WideOp(0);
  ASSERT_TRUE(op);
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*op));
    test->MouseWheelY(1);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  const ui::View zoomed = harness_.context().view;
  const double ratio =
      static_cast<double>(Span()) / static_cast<double>(before.end_ns - before.start_ns);
  EXPECT_NEAR(ratio, 1 / 1.25, 0.06);
  EXPECT_GT(zoomed.start_ns, before.start_ns);
  EXPECT_LT(zoomed.end_ns, before.end_ns);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_Backspace);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_EQ(harness_.context().view.start_ns, before.start_ns);
  EXPECT_EQ(harness_.context().view.end_ns, before.end_ns);
}

TEST_F(PanelsTest, KeysPanAndZoomAndFitTheSelection) {
  OpenLesson();
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_D);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_GT(harness_.context().view.start_ns, before.start_ns);
  EXPECT_EQ(Span(), before.end_ns - before.start_ns);
  const auto op = WideOp(0);
  ASSERT_TRUE(op);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*op));
    test->MouseClick();
    test->KeyPress(ImGuiKey_F);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_LT(Span(), (before.end_ns - before.start_ns) / 2);
}

TEST_F(PanelsTest, ClickSelectsAnOpAndDetailsTellAboutIt) {
  OpenLesson();
  const auto op = WideOp(1);
  ASSERT_TRUE(op);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*op));
    test->MouseClick();
  }));
  const std::string id = "op_run:1:" + std::to_string(harness_.context().selection.op_run.value());
  EXPECT_EQ(id, op->id);
  EXPECT_EQ(harness_.context().selection.rank, 1);
  EXPECT_NE(harness_.log().Find("details", "title"), nullptr);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Escape); }));
  EXPECT_EQ(harness_.context().selection.op_run, query::OpRunId::None());
}

// Of any op, as lesson "streams" says; of an all-gather with its slack.
TEST_F(PanelsTest, AnArrowLeadsFromWhereAnOpWasIssuedToWhereItBegan) {
  OpenLesson();
  const query::SnapshotPtr snapshot = harness_.context().snapshot;
  const query::RankRows& rows = snapshot->ranks.front();
  query::OpRun waited;
  for (const query::OpRun& run : rows.op_runs) {
    const query::PlanOp* op = snapshot->FindPlanOp(run.plan_op);
    if (op == nullptr || op->op_class == query::OpClass::kAllGather) continue;
    const int64_t longest_ns = waited.started_ns - waited.issued_ns;
    if (run.started_ns - run.issued_ns > longest_ns) waited = run;
  }
  ASSERT_GT(waited.started_ns, waited.issued_ns);
  harness_.shell().Post(ui::ShowOp{waited.id, rows.rank});
  EXPECT_TRUE(harness_.Until(
      [&] { return harness_.log().Find("timeline", "issue_arrow") != nullptr; }, 10));
  EXPECT_EQ(std::get<int64_t>(harness_.log().Find("timeline", "issue_arrow")->value),
            waited.started_ns - waited.issued_ns);
}

TEST_F(PanelsTest, DoubleClickFitsASpan) {
  OpenLesson();
  const auto op = WideOp(0);
  ASSERT_TRUE(op);
  const int64_t before = Span();
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*op));
    test->MouseDoubleClick();
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_LT(Span(), before / 2);
  // The span fills most of the view now, and all of it is in view.
  const ui::DrawnItem* drawn = harness_.log().Find("timeline", op->id);
  const ui::DrawnItem* minimap = harness_.log().Find("timeline", "minimap");
  ASSERT_TRUE(drawn != nullptr && minimap != nullptr);
  EXPECT_GT(drawn->box.x0, minimap->box.x0);
  EXPECT_LT(drawn->box.x1, minimap->box.x1);
  EXPECT_GT(drawn->box.x1 - drawn->box.x0, (minimap->box.x1 - minimap->box.x0) / 3);
}

TEST_F(PanelsTest, ShiftClickCollectsSpansAndDetailsAddThemUp) {
  OpenLesson();
  const auto first = WideOp(0);
  const auto second = WideOp(1);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*first));
    test->MouseClick();
  }));
  EXPECT_EQ(harness_.log().Find("details", "selected_sum"), nullptr);
  const auto shift_click = [&](ImGuiTestContext* test) {
    test->KeyDown(ImGuiMod_Shift);
    test->MouseMoveToPos(Middle(*second));
    test->MouseClick();
    test->KeyUp(ImGuiMod_Shift);
  };
  EXPECT_TRUE(harness_.Drive(shift_click));
  ASSERT_EQ(harness_.context().selection.also.size(), 1u);
  const ui::SelectedOp also = harness_.context().selection.also.front();
  EXPECT_EQ("op_run:1:" + std::to_string(also.op_run.value()), second->id);
  int64_t sum_ns = 0;
  for (const query::RankRows& rows : harness_.context().snapshot->ranks) {
    for (const query::OpRun& run : rows.op_runs) {
      if (harness_.context().selection.Contains({run.id, rows.rank})) {
        sum_ns += run.ended_ns - run.started_ns;
      }
    }
  }
  const ui::DrawnItem* sum = harness_.log().Find("details", "selected_sum");
  ASSERT_NE(sum, nullptr);
  EXPECT_EQ(std::get<int64_t>(sum->value), sum_ns);
  EXPECT_TRUE(harness_.Drive(shift_click));  // again: no longer
  EXPECT_TRUE(harness_.context().selection.also.empty());
}

TEST_F(PanelsTest, DraggingTheMinimapMovesTheViewAndLeavesFollowing) {
  OpenLesson();
  harness_.shell().Post(ui::SetFollow{true});  // a live run has a button for it
  harness_.Frames(30);
  EXPECT_TRUE(harness_.context().view.follow);
  const query::Snapshot& run = *harness_.context().snapshot;
  EXPECT_GE(harness_.context().view.end_ns, run.end_ns);
  const ui::View before = harness_.context().view;
  const ui::Box box = harness_.log().Find("timeline", "minimap")->box;
  const double ns_per_pixel = static_cast<double>(run.end_ns - run.start_ns) / (box.x1 - box.x0);
  const int64_t middle_ns = (before.start_ns + before.end_ns) / 2;
  const float x =
      box.x0 + static_cast<float>(static_cast<double>(middle_ns - run.start_ns) / ns_per_pixel);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos({x, (box.y0 + box.y1) / 2});
    test->MouseDown();
    test->MouseMoveToPos({x - 200, (box.y0 + box.y1) / 2});
    test->MouseUp();
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_FALSE(harness_.context().view.follow);
  EXPECT_EQ(Span(), before.end_ns - before.start_ns);
  EXPECT_NEAR(static_cast<double>(before.start_ns - harness_.context().view.start_ns),
              200 * ns_per_pixel, 3 * ns_per_pixel);
}

TEST_F(PanelsTest, PressBesideTheMinimapsWindowCentresItThere) {
  OpenLesson();
  const query::Snapshot& run = *harness_.context().snapshot;
  const int64_t length = Span();
  const ui::Box box = harness_.log().Find("timeline", "minimap")->box;
  const float x = box.x0 + (box.x1 - box.x0) / 5;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos({x, (box.y0 + box.y1) / 2});
    test->MouseClick();
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_EQ(Span(), length);
  const int64_t middle = (harness_.context().view.start_ns + harness_.context().view.end_ns) / 2;
  const double run_ns = static_cast<double>(run.end_ns - run.start_ns);
  EXPECT_NEAR(static_cast<double>(middle - run.start_ns), run_ns / 5, run_ns / 100);
}

TEST_F(PanelsTest, FollowIsAToggleThatADragLeavesAndEndReturnsTo) {
  query::Snapshot live = *analysis::MakeLessonSnapshot(2, 24, 12);
  live.state = query::TraceState::kLive;
  harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(live));
  harness_.Frames(8);
  const auto op = WideOp(0);
  ASSERT_TRUE(op);
  harness_.shell().Post(ui::SetFollow{false});
  harness_.Frames(2);
  ASSERT_FALSE(harness_.context().view.follow);
  const auto click_follow = [&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "follow"));
    test->MouseClick();
    test->SleepNoSkip(0.3f, 1.0f / 60);
  };
  EXPECT_TRUE(harness_.Drive(click_follow));
  EXPECT_TRUE(harness_.context().view.follow);
  EXPECT_GE(harness_.context().view.end_ns, live.end_ns);
  const ui::View followed = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ImVec2 at = Middle(*op);
    test->MouseMoveToPos(at);
    test->MouseDown();
    test->MouseMoveToPos({at.x + 150, at.y});
    test->MouseUp();
  }));
  EXPECT_FALSE(harness_.context().view.follow);
  EXPECT_LT(harness_.context().view.start_ns, followed.start_ns);
  EXPECT_EQ(Span(), followed.end_ns - followed.start_ns);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_End);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_TRUE(harness_.context().view.follow);
  EXPECT_TRUE(harness_.Drive(click_follow));
  EXPECT_FALSE(harness_.context().view.follow);
}

// One more step on every rank, as a live run brings them: the last one again, later.
void AppendStep(query::Snapshot* live) {
  const int64_t length_ns =
      live->ranks[0].steps.back().end_ns - live->ranks[0].steps.back().start_ns;
  for (query::RankRows& rows : live->ranks) {
    query::Step step = rows.steps.back();
    const size_t known = rows.op_runs.size();
    for (size_t at = 0; at < known; ++at) {
      query::OpRun run = rows.op_runs[at];
      if (run.step != step.step) continue;
      run.id = query::OpRunId(run.id.value() + 1'000'000);
      ++run.step;
      for (int64_t* time : {&run.issued_ns, &run.ready_ns, &run.started_ns, &run.ended_ns}) {
        *time += length_ns;
      }
      rows.op_runs.Append(run);
    }
    ++step.step;
    step.start_ns += length_ns;
    step.end_ns += length_ns;
    rows.steps.Append(step);
  }
  live->end_ns += length_ns;
  ++live->generation;
}

TEST_F(PanelsTest, AFollowedViewHoldsStillUnderTheMouse) {
  auto live = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 24, 99));
  live->state = query::TraceState::kLive;
  harness_.shell().OpenSnapshot(live);
  harness_.Frames(8);
  harness_.shell().Post(ui::SetFollow{true});
  harness_.Frames(30);
  const auto op = WideOp(0);
  ASSERT_TRUE(op);
  const auto start_ns = [&] { return harness_.context().view.start_ns; };
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const int64_t before = start_ns();
    test->MouseMoveToPos(Middle(*op));
    test->Yield(3);
    AppendStep(live.get());
    test->Yield(10);
    IM_CHECK_EQ(start_ns(), before);
    IM_CHECK(harness_.context().view.follow);  // the toggle stays on
    IM_CHECK_STR_EQ(harness_.log().Find("timeline", "follow")->text.c_str(), "follow: held");
    const ui::DrawnItem* same = harness_.log().Find("timeline", op->id);
    IM_CHECK(same != nullptr && same->box.x0 == op->box.x0);
    test->MouseMoveToPos({300, 10});  // the top bar
    test->SleepNoSkip(0.5f, 1.0f / 60);
    IM_CHECK(harness_.context().view.end_ns >= live->end_ns);
    const int64_t followed = start_ns();
    IM_CHECK(followed > before);
    // A button held over the memory, wherever, does the same.
    const ui::Box memory = harness_.log().Find("memory", "axis_max:0")->box;
    test->MouseMoveToPos({memory.x1 + 40, memory.y1 + 20});
    test->MouseDown();
    test->Yield(3);
    AppendStep(live.get());
    test->Yield(10);
    IM_CHECK_EQ(start_ns(), followed);
    test->MouseUp();
    test->MouseMoveToPos({300, 10});
    test->SleepNoSkip(0.5f, 1.0f / 60);
    IM_CHECK(start_ns() > followed);
  }));
}

TEST_F(PanelsTest, AMouseThatRestsWhereAViewBeginsToFollowDoesNotHoldIt) {
  auto live = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 24, 99));
  live->state = query::TraceState::kLive;
  harness_.shell().OpenSnapshot(live);
  harness_.Frames(8);
  harness_.shell().Post(ui::SetFollow{false});
  harness_.Frames(4);
  const auto op = WideOp(0);
  ASSERT_TRUE(op);
  const auto follow = [&] { return harness_.log().Find("timeline", "follow")->text; };
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*op));
    test->Yield(3);
    harness_.shell().Post(ui::SetFollow{true});
    test->SleepNoSkip(0.5f, 1.0f / 60);
    EXPECT_NE(follow(), "follow: held");
    const int64_t before = harness_.context().view.start_ns;
    AppendStep(live.get());
    test->Yield(10);
    EXPECT_GT(harness_.context().view.start_ns, before);
    const auto other = WideOp(0);
    ASSERT_TRUE(other);
    test->MouseMoveToPos({other->box.x0 + 4, (other->box.y0 + other->box.y1) / 2});
    test->Yield(3);
    EXPECT_EQ(follow(), "follow: held");
  }));
}

TEST_F(PanelsTest, TooltipsFitFromTheirFirstFrameOnAndCoverNoCallout) {
  OpenLesson();
  const auto gather = [&]() -> std::optional<ui::DrawnItem> {
    for (const ui::DrawnItem& item : harness_.log().items()) {
      if (item.panel == "timeline" && item.id.rfind("op_run:0:", 0) == 0 &&
          item.text.find("all_gather") != std::string::npos && item.box.x1 - item.box.x0 > 8) {
        return item;
      }
    }
    return std::nullopt;
  }();
  const auto op = WideOp(0);
  ASSERT_TRUE(gather && op);
  int tooltips = 0;
  bool with_callout = false;
  const auto look_at = [&] {
    const ui::DrawnItem* tooltip = harness_.log().Find("timeline", "tooltip");
    if (tooltip == nullptr) return;
    ++tooltips;
    ImFont* font = harness_.context().fonts.text;
    const ImVec2 text = font->CalcTextSizeA(ui::kTextSize, FLT_MAX, 320, tooltip->text.c_str());
    EXPECT_GE(tooltip->box.x1 - tooltip->box.x0, text.x) << tooltip->text;
    EXPECT_GE(tooltip->box.y1 - tooltip->box.y0, text.y) << tooltip->text;
    const ui::DrawnItem* callout = harness_.log().Find("timeline", "slack");
    if (callout == nullptr) return;
    with_callout = true;
    const ui::Box& a = tooltip->box;
    const ui::Box& b = callout->box;
    EXPECT_FALSE(a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1);
  };
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(Middle(*gather));
    test->MouseClick();  // its slack stands beside it
    for (const ui::DrawnItem& item : {*gather, *op, *gather}) {
      test->MouseTeleportToPos(Middle(item));
      for (int frame = 0; frame < 4; ++frame) {
        test->Yield();
        look_at();
      }
    }
  }));
  EXPECT_GE(tooltips, 10);
  EXPECT_TRUE(with_callout);
}

TEST_F(PanelsTest, ClickOnARanksNameFoldsIt) {
  OpenLesson();
  const bool folded = harness_.context().lanes.folded_ranks.contains(1);
  const auto click = [&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "rank:1"));
    test->MouseClick();
  };
  EXPECT_TRUE(harness_.Drive(click));
  EXPECT_NE(harness_.context().lanes.folded_ranks.contains(1), folded);
  EXPECT_TRUE(harness_.Drive(click));
  EXPECT_EQ(harness_.context().lanes.folded_ranks.contains(1), folded);
}

TEST_F(PanelsTest, AllRanksFoldAtOnceByKeyAndInTheHeader) {
  OpenLesson();
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Z); }));
  EXPECT_EQ(harness_.context().lanes.folded_ranks.size(), 4u);
  const auto click = [&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "fold_all"));
    test->MouseClick();
  };
  EXPECT_TRUE(harness_.Drive(click));
  EXPECT_TRUE(harness_.context().lanes.folded_ranks.empty());
  EXPECT_TRUE(harness_.Drive(click));
  EXPECT_EQ(harness_.context().lanes.folded_ranks.size(), 4u);
}

TEST_F(PanelsTest, TheLegendNamesColoursAndHatchesUntilItIsFoldedAway) {
  OpenLesson();
  for (const char* name : {"forward", "backward", "all-gather", "reduce-scatter", "optimizer",
                           "wait", "stall", "emulated"}) {
    EXPECT_NE(harness_.log().Find("timeline", std::string("legend:") + name), nullptr) << name;
  }
  const float lanes = harness_.log().Find("timeline", "rank:0")->box.y0;
  const auto click = [&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "legend"));
    test->MouseClick();
  };
  EXPECT_TRUE(harness_.Drive(click));
  EXPECT_EQ(harness_.log().Find("timeline", "legend:stall"), nullptr);
  EXPECT_LT(harness_.log().Find("timeline", "rank:0")->box.y0, lanes);
  EXPECT_TRUE(harness_.Drive(click));
  EXPECT_NE(harness_.log().Find("timeline", "legend:stall"), nullptr);
}

TEST_F(PanelsTest, AStepIsReachedByItsNumber) {
  OpenLesson();
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_G);
    test->Yield(3);
    EXPECT_NE(harness_.log().Find("go_to", "range"), nullptr);
    test->KeyChars("99");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(2);
    const ui::DrawnItem* error = harness_.log().Find("go_to", "error");
    ASSERT_NE(error, nullptr);
    EXPECT_THAT(error->text, testing::HasSubstr("step 99"));
    EXPECT_THAT(harness_.log().Find("go_to", "range")->text, testing::HasSubstr("0 to 23"));
    // What was typed is still there, has the keyboard, and is replaced by what is typed next.
    EXPECT_STREQ(ImGui::GetCurrentContext()->InputTextState.TextA.Data, "99");
    test->KeyChars("5");
    test->KeyPress(ImGuiKey_Enter);
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_EQ(harness_.log().Find("go_to", "range"), nullptr);  // it is gone
  const query::Step& step = harness_.context().snapshot->ranks[0].steps[5];
  EXPECT_LT(harness_.context().view.start_ns, step.start_ns);
  EXPECT_GT(harness_.context().view.end_ns, step.end_ns);
  EXPECT_LT(Span(), 4 * (step.end_ns - step.start_ns));  // with its neighbours
}

TEST_F(PanelsTest, ATimeIsReachedToo) {
  OpenLesson();
  const query::Snapshot& snapshot = *harness_.context().snapshot;
  const query::Step& step = snapshot.ranks[0].steps[7];
  const auto go_to = [this](const std::string& text) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->KeyPress(ImGuiKey_G);
      test->Yield(3);
      test->KeyChars(text.c_str());
      test->KeyPress(ImGuiKey_Enter);
      test->SleepNoSkip(0.3f, 1.0f / 60);
    }));
  };
  const auto middle = [this] {
    const ui::View& view = harness_.context().view;
    return view.start_ns + (view.end_ns - view.start_ns) / 2;
  };
  go_to("step=7+1ms");
  EXPECT_EQ(harness_.log().Find("go_to", "range"), nullptr);
  const auto is_in_the_middle = [&](int64_t time_ns) {
    return std::abs(middle() - time_ns) < Span() / 100;  // the view comes to rest
  };
  EXPECT_TRUE(is_in_the_middle(step.start_ns + 1'000'000));
  EXPECT_LE(Span(), 3 * (step.end_ns - step.start_ns));
  const int64_t from_start_ns = snapshot.ranks[0].steps[12].start_ns - snapshot.start_ns;
  go_to(std::to_string(static_cast<double>(from_start_ns) / 1e9) + "s");
  EXPECT_TRUE(is_in_the_middle(snapshot.ranks[0].steps[12].start_ns));
  go_to("9999s");
  const ui::DrawnItem* error = harness_.log().Find("go_to", "error");
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->text, testing::HasSubstr("no such time"));
}

// Rows of the run until its step `last` runs: that one has ops and no end.
query::Snapshot WhileStepRuns(const query::Snapshot& run, int32_t last) {
  query::Snapshot part = run;
  part.state = query::TraceState::kLive;
  part.end_ns = part.start_ns + 1;
  for (size_t rank = 0; rank < part.ranks.size(); ++rank) {
    query::RankRows& rows = part.ranks[rank];
    rows.op_runs = {};
    rows.steps = {};
    for (const query::OpRun& op : run.ranks[rank].op_runs) {
      if (op.step > last) continue;
      rows.op_runs.Append(op);
      part.end_ns = std::max(part.end_ns, op.ended_ns);
    }
    for (const query::Step& step : run.ranks[rank].steps) {
      if (step.step < last) rows.steps.Append(step);
    }
  }
  return part;
}

TEST_F(PanelsTest, TheRunningStepHasABoundaryAndAName) {
  const auto lesson = analysis::MakeLessonSnapshot(2, 24, 99);
  for (const int32_t running : {0, 7}) {
    auto live = std::make_shared<query::Snapshot>(WhileStepRuns(*lesson, running));
    harness_.shell().OpenSnapshot(live);
    harness_.Frames(8);
    harness_.shell().Post(ui::SetFollow{true});
    harness_.Frames(30);
    const std::string number = std::to_string(running);
    const ui::DrawnItem* label = harness_.log().Find("timeline", "step:" + number);
    const ui::DrawnItem* bar = harness_.log().Find("timeline", "minimap_step:" + number);
    ASSERT_TRUE(label != nullptr && bar != nullptr) << running;
    EXPECT_EQ(label->text, "step " + number + " running");
    const ui::DrawnItem* before =
        harness_.log().Find("timeline", "step:" + std::to_string(running - 1));
    if (running > 0) {
      ASSERT_NE(before, nullptr);
      EXPECT_GT(label->box.x0, before->box.x1);
    }
  }
  query::Snapshot cut = WhileStepRuns(*lesson, 7);
  cut.state = query::TraceState::kCut;
  harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(cut));
  harness_.Frames(8);
  harness_.shell().Post(ui::ShowStep{7});
  harness_.Frames(30);
  const ui::DrawnItem* label = harness_.log().Find("timeline", "step:7");
  ASSERT_NE(label, nullptr);
  EXPECT_EQ(label->text, "step 7 unfinished");
}

TEST_F(PanelsTest, WhyTheRunFailedStandsOverThePanelsAndLeadsToTheMoment) {
  query::Snapshot failed = *analysis::MakeLessonSnapshot(2, 24, 12);
  const query::Step& step = failed.ranks[0].steps[7];
  const std::string message = "rank 1 did not arrive at B m0 block1 all_gather within 30 s";
  failed.markers.push_back({step.end_ns, step.step + 1, "error", "", "", message});
  harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(failed));
  harness_.Frames(8);
  const ui::DrawnItem* problem = harness_.log().Find("banner", "problem");
  ASSERT_NE(problem, nullptr);
  EXPECT_THAT(problem->text, testing::HasSubstr(message));
  EXPECT_THAT(problem->text, testing::HasSubstr("step " + std::to_string(step.step + 1)));
  EXPECT_EQ(std::get<int64_t>(problem->value), step.end_ns);
  const std::string line = "error:" + std::to_string(step.step + 1);
  EXPECT_EQ(harness_.log().Find("timeline", line), nullptr);  // the view is elsewhere
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "banner", "problem"));
    test->MouseClick();
    test->SleepNoSkip(0.3f, 1.0f / 60);
  }));
  EXPECT_LT(harness_.context().view.start_ns, step.end_ns);
  EXPECT_GT(harness_.context().view.end_ns, step.end_ns);
  ASSERT_NE(harness_.log().Find("timeline", line), nullptr);
  EXPECT_EQ(harness_.log().Find("timeline", line)->text, message);
  const float top = harness_.log().Find("timeline", "minimap")->box.y0;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ui::Box box = harness_.log().Find("banner", "problems")->box;
    test->MouseMoveToPos({box.x1 - 10, (box.y0 + box.y1) / 2});
    test->MouseClick();
    test->Yield(3);
  }));
  EXPECT_EQ(harness_.log().Find("banner", "problem"), nullptr);
  EXPECT_LT(harness_.log().Find("timeline", "minimap")->box.y0, top);  // the panels take its place
}

TEST_F(PanelsTest, WhatIsLoadedOfARunThatDoesNotFitStandsOverThePanels) {
  query::Snapshot some = *analysis::MakeLessonSnapshot(2, 24, 12);
  some.part = query::RunPart{0, 23, 0, 99, int64_t{20'000'000'000}};
  harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(some));
  harness_.Frames(8);
  const ui::DrawnItem* part = harness_.log().Find("banner", "part");
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->text, "Steps 0 to 23 of 0 to 99 are loaded: all would take 20.0 GB of memory");
  EXPECT_EQ(std::get<int64_t>(part->value), 24);
  EXPECT_EQ(ui::ScopeMenuOf(harness_.context()).label, "steps 0–23");
  // Its other steps can be asked for, and only those.
  for (const int step : {50, 100}) {
    harness_.shell().Post(ui::ShowOverlay{ui::Overlay::kGoTo});
    harness_.Frames(3);
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->KeyCharsReplaceEnter(std::to_string(step).c_str());
      test->Yield(2);
    }));
    EXPECT_EQ(harness_.context().overlay == ui::Overlay::kGoTo, step == 100);
  }
  harness_.shell().Post(ui::ShowOverlay{});
  // What is more urgent comes first.
  some.markers.push_back({some.end_ns, 23, "error", "", "", "rank 1 is gone"});
  harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(some));
  harness_.Frames(8);
  EXPECT_EQ(harness_.log().Find("banner", "part"), nullptr);
  harness_.shell().Post(ui::DismissProblems{});
  harness_.Frames(3);
  EXPECT_NE(harness_.log().Find("banner", "part"), nullptr);
}

// Which steps and times it has is known once it is read: until then each may be asked for.
TEST_F(PanelsTest, WhatIsNotReadYetIsGoneToWhenItIs) {
  query::Snapshot some = *analysis::MakeLessonSnapshot(2, 24, 12);
  some.loading = true;
  for (const char* place : {"100", "1us", "step=100+2ms"}) {
    harness_.shell().OpenSnapshot(std::make_shared<query::Snapshot>(some));
    harness_.Frames(8);
    const ui::View before = harness_.context().view;
    harness_.shell().Post(ui::ShowOverlay{ui::Overlay::kGoTo});
    harness_.Frames(3);
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->KeyCharsReplaceEnter(place);
      test->Yield(2);
    }));
    EXPECT_EQ(harness_.context().overlay, ui::Overlay::kNone) << place;
    EXPECT_EQ(harness_.context().view.start_ns, before.start_ns) << place;
    EXPECT_TRUE(harness_.context().notice.text.empty()) << harness_.context().notice.text;
  }
}

TEST_F(PanelsTest, AClickOnTheChipChoosesTheStepsOfAllFigures) {
  OpenLesson();
  const auto text = [this](const char* panel, const char* id) {
    const ui::DrawnItem* item = harness_.log().Find(panel, id);
    return item == nullptr ? std::string() : item->text;
  };
  const auto shown = [this] {
    return std::get<double>(harness_.log().Find("top_bar", "exposed_ns_p50")->value);
  };
  EXPECT_EQ(text("top_bar", "scope"), "whole run");
  const double whole = shown();
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "overlap", "scope"));
    test->MouseClick();
    test->ItemClick("//$FOCUSED/since the last change");
    test->Yield(3);
  }));
  EXPECT_EQ(text("top_bar", "scope"), "since step 12");
  EXPECT_EQ(text("overlap", "scope"), "since step 12");
  const analysis::Report since =
      analysis::MakeReport(*harness_.context().snapshot,
                           {.scope = analysis::Scope{.kind = analysis::ScopeKind::kSinceChange}});
  EXPECT_EQ(shown(), since.figures.summary.exposed_ns.p50);
  EXPECT_LT(shown(), whole);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_R);  // the next one
    test->Yield(3);
  }));
  EXPECT_EQ(text("top_bar", "scope"), "last 20 steps");
}

TEST_F(PanelsTest, FiguresInViewFollowTheView) {
  OpenLesson();
  harness_.shell().Post(ui::SetScope{analysis::Scope{.kind = analysis::ScopeKind::kInView}});
  const query::RankRows& rows = harness_.context().snapshot->ranks.front();
  for (const size_t step : {size_t{4}, size_t{16}}) {
    const auto middle = [&](size_t at) {
      return (rows.steps[at].start_ns + rows.steps[at].end_ns) / 2;
    };
    harness_.shell().Post(ui::SetView{middle(step - 1), middle(step + 3), false, false});
    harness_.Frames(4);
    EXPECT_EQ(harness_.context().figures->scope.first, static_cast<int32_t>(step));
    EXPECT_EQ(harness_.context().figures->scope.last, static_cast<int32_t>(step) + 2);
  }
}

TEST_F(PanelsTest, KnobsOfAFinishedRunFollowTheViewAndTheSelectionInIt) {
  OpenLesson();
  const auto value = [this] {
    return harness_.log().Find("run_control", "knob:prefetch.backward")->text;
  };
  const query::RankRows& rows = harness_.context().snapshot->ranks.front();
  const auto show = [&](size_t step) {
    const query::Step& row = rows.steps[step];
    harness_.shell().Post(ui::SetView{row.start_ns, row.end_ns, false, false});
    harness_.Frames(3);
  };
  harness_.shell().Post(ui::SelectOp{});
  show(5);
  EXPECT_EQ(value(), "none");
  EXPECT_EQ(harness_.log().Find("run_control", "values_at")->text, "values at step 5");
  show(15);
  EXPECT_EQ(value(), "pre");
  // Steps 11 and 12 in view, an op of 11 selected: prefetch was turned on at 12.
  std::optional<query::OpRun> op;
  for (const query::OpRun& run : rows.op_runs) {
    if (run.step == 11) op = run;
  }
  ASSERT_TRUE(op.has_value());
  harness_.shell().Post(ui::SelectOp{op->id, rows.rank, false});
  harness_.shell().Post(ui::SetView{rows.steps[11].start_ns, rows.steps[14].end_ns, false, false});
  harness_.Frames(3);
  EXPECT_EQ(harness_.log().Find("run_control", "values_at")->text, "values at step 11");
  EXPECT_EQ(value(), "none");
}

TEST_F(PanelsTest, FinishedRunShowsItsKnobsButTurnsNone) {
  OpenLesson();
  EXPECT_EQ(harness_.log().Find("run_control", "knob:prefetch.backward")->text, "pre");
  EXPECT_NE(harness_.log().Find("run_control", "notice"), nullptr);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###run_control");
    const ImGuiTestItemInfo item = test->ItemInfo("prefetch.backward/segments/post");
    IM_CHECK(item.ID != 0);
    IM_CHECK((item.ItemFlags & ImGuiItemFlags_Disabled) != 0);
  }));
}

// Where a word is met first, it says what it means.
TEST(TermsTest, WordsOfLegendsAndOfDetailsAreExplainedUnderTheMouse) {
  Harness harness({}, {}, /*log_widgets=*/true);
  harness.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
  harness.Frames(8);
  struct Word {
    std::string panel;
    std::string text;
    ImVec2 at;
  };
  std::vector<Word> words;
  for (const ui::DrawnItem& item : harness.log().items()) {
    const ImVec2 middle((item.box.x0 + item.box.x1) / 2, (item.box.y0 + item.box.y1) / 2);
    if (item.id.starts_with("legend:") && (item.panel == "memory" || item.panel == "overlap")) {
      words.push_back({item.panel, item.text, middle});
    }
    const bool is_row = item.panel == "details" && (item.id == "issued" || item.id == "started");
    if (is_row) words.push_back({item.panel, item.id, middle});
  }
  ASSERT_GE(words.size(), 8U);
  for (const Word& word : words) {
    std::string tip;
    EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(word.at);
      test->Yield(2);
      const ui::DrawnItem* drawn = harness.log().Find(word.panel.c_str(), "tooltip");
      if (drawn != nullptr) tip = drawn->text;
    }));
    EXPECT_THAT(tip, testing::StartsWith(word.text + "\n")) << word.panel;
    EXPECT_GT(tip.size(), word.text.size() + 10);
  }
}

}  // namespace
}  // namespace shardscope::ui_test
