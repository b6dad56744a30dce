// The panel Blocks over a run on disk: by key, by clicks into Memory, with an earlier moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/ui/harness.h"
#include "trace/query/trace_test_util.h"
#include "ui/memory_choices.h"
#include "ui/values.h"

namespace shardscope::ui_test {
namespace {

using ::testing::HasSubstr;

constexpr double kBlocksSeconds = 60;  // of the worst machine
constexpr int64_t kBlocksMs = 1'000'000;
constexpr int64_t kShard = 100;
constexpr int64_t kGathered = 400;

// One step of 100 ms on two ranks: an op of 10 ms takes kGathered at 20 ms, and another of 10 ms
// gives it back at 60 ms. On rank 1 it is twice as much.
class BlocksTest : public testing::Test {
 protected:
  BlocksTest() {
    const auto recorder = query::OpenRecorder(folder_.path());
    const auto take = query::AddPlanOp(recorder.get(), "F block0 copy_out", "copy_out", "copy");
    const auto give = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
    for (int64_t rank = 0; rank < 2; ++rank) {
      schema::RankRow row;
      row.rank = rank;
      recorder->Add(row);
      schema::TrackRow track;
      track.rank = rank;
      track.name = track.role = "compute";
      const auto id = recorder->Add(track);
      for (const auto& [op, start_ms] : {std::pair(take, 120), std::pair(give, 160)}) {
        record::OpRecord run =
            query::OpAt(op, rank, 0, start_ms * kBlocksMs, (start_ms + 10) * kBlocksMs);
        run.run.track = id;
        recorder->Record(run);
      }
      Change(recorder.get(), rank, 100, kShard, "parameter_shard", schema::PlanOpId::None());
      Change(recorder.get(), rank, 120, kGathered * (1 + rank), "unsharded_parameter", take);
      Change(recorder.get(), rank, 160, -kGathered * (1 + rank), "unsharded_parameter", give);
      schema::StepRow step;
      step.rank = rank;
      step.start_ns = 100 * kBlocksMs;
      step.end_ns = 200 * kBlocksMs;
      recorder->Record(step);
    }
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    SHARDSCOPE_CHECK(harness_.shell().Open(folder_.path()).ok());
    EXPECT_TRUE(harness_.Until(
        [this] {
          return !harness_.context().snapshot->loading && harness_.context().report != nullptr;
        },
        kBlocksSeconds));
    harness_.Frames(4);
  }

  static void Change(record::Recorder* recorder, int64_t rank, int64_t time_ms, int64_t bytes,
                     const char* category, schema::PlanOpId op) {
    schema::MemoryEventRow row;
    row.rank = rank;
    row.device = "cpu";
    row.issued_ns = row.executed_ns = time_ms * kBlocksMs;
    row.bytes = bytes;
    row.category = category;
    row.unit = "block0";
    row.plan_op = op;
    row.step = op.is_none() ? -1 : 0;
    recorder->Record(row);
  }

  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("blocks", id);
  }
  // Once it is of that much.
  bool Shows(const char* id, int64_t bytes) {
    return harness_.Until(
        [&] {
          const ui::DrawnItem* item = Drawn(id);
          return item != nullptr && std::get<int64_t>(item->value) == bytes;
        },
        kBlocksSeconds);
  }
  // Into the plot of a rank in Memory, at a time of the step.
  void ClickMemory(int rank, int64_t time_ms, bool ctrl) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      const ui::Box axis = harness_.log().Find("memory", "axis_max:" + std::to_string(rank))->box;
      const ui::DrawnItem* minimap = harness_.log().Find("timeline", "minimap");
      const ui::View& view = harness_.context().view;
      const double share = static_cast<double>(time_ms * kBlocksMs - view.start_ns) /
                           static_cast<double>(view.end_ns - view.start_ns);
      const float width = minimap->box.x1 - minimap->box.x0;
      test->MouseMoveToPos({minimap->box.x0 + width * static_cast<float>(share), axis.y1 + 20});
      if (ctrl) test->KeyDown(ImGuiMod_Ctrl);
      test->MouseClick();
      if (ctrl) test->KeyUp(ImGuiMod_Ctrl);
    }));
  }
  void Press(ImGuiKeyChord chord) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) { test->KeyPress(chord); }));
  }
  // With the mouse over the lanes of a rank, at a time of the step.
  void PressOverLanes(ImGuiKeyChord chord, int rank, int64_t time_ms) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      const ui::Box minimap = harness_.log().Find("timeline", "minimap")->box;
      const ui::DrawnItem* name = harness_.log().Find("timeline", "rank:" + std::to_string(rank));
      ASSERT_NE(name, nullptr);
      const ui::View& view = harness_.context().view;
      const double share = static_cast<double>(time_ms * kBlocksMs - view.start_ns) /
                           static_cast<double>(view.end_ns - view.start_ns);
      test->MouseMoveToPos({minimap.x0 + (minimap.x1 - minimap.x0) * static_cast<float>(share),
                            (name->box.y0 + name->box.y1) / 2});
      test->Yield(2);
      EXPECT_EQ(harness_.context().hover_rank, rank);
      test->KeyPress(chord);
    }));
  }

  const query::TestFolder folder_;
  Harness harness_;
};

TEST_F(BlocksTest, AKeyShowsThePeakOfTheRankThatTakesMost) {
  harness_.shell().Post(ui::SetHover{});
  Press(ImGuiKey_M);
  ASSERT_TRUE(Shows("live", kShard + 2 * kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("rank")->value), 1);
  EXPECT_EQ(std::get<int64_t>(Drawn("at")->value), 120 * kBlocksMs);
  EXPECT_EQ(std::get<int64_t>(Drawn("block:0")->value), 2 * kGathered);
  EXPECT_THAT(Drawn("block:0")->text, HasSubstr("F block0 copy_out → F block0"));
  EXPECT_THAT(Drawn("block:1")->text, HasSubstr("there from the start → not freed"));
  EXPECT_EQ(Drawn("at")->text, "at the peak, " +
                                   ui::FormatMoment(*harness_.context().snapshot, 120 * kBlocksMs) +
                                   " from the start");
  ASSERT_NE(Drawn("tile:0"), nullptr);
  EXPECT_EQ(Drawn("tile:0")->text, "block0");
}

// As those of a rank whose snapshot is missing.
TEST_F(BlocksTest, FromARankWithoutRowsAKeyLeadsBackToThePeakOfAll) {
  harness_.shell().Post(ui::AskBlocks{2, 150 * kBlocksMs});
  ASSERT_TRUE(harness_.Until([&] { return Drawn("empty") != nullptr; }, kBlocksSeconds));
  harness_.shell().Post(ui::SetHover{});
  Press(ImGuiKey_M);
  ASSERT_TRUE(Shows("live", kShard + 2 * kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("rank")->value), 1);
}

// The mouse is elsewhere: of two ops that are selected one after the other.
TEST_F(BlocksTest, KeysAloneCompareTwoMoments) {
  const auto select = [this](size_t row) {
    const query::OpRun run = harness_.context().snapshot->FindRank(0)->op_runs[row];
    harness_.shell().Post(ui::SetHover{});
    harness_.shell().Post(ui::SelectOp{run.id, 0});
    harness_.Frames(3);
  };
  select(0);
  Press(ImGuiKey_M);
  ASSERT_TRUE(Shows("live", kShard + kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("rank")->value), 0);
  EXPECT_EQ(std::get<int64_t>(Drawn("at")->value), 120 * kBlocksMs);
  select(1);
  Press(ImGuiMod_Shift | ImGuiKey_M);
  ASSERT_TRUE(Shows("went", kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("at")->value), 160 * kBlocksMs);
  EXPECT_EQ(harness_.context().blocks.since_ns, 120 * kBlocksMs);
}

TEST_F(BlocksTest, OverALaneAKeyShowsThatRankAtThatTime) {
  PressOverLanes(ImGuiKey_M, 0, 140);
  ASSERT_TRUE(Shows("live", kShard + kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("rank")->value), 0);  // rank 1 takes more
}

TEST_F(BlocksTest, OverALaneAKeyComparesWithThatTime) {
  ClickMemory(0, 180, false);
  ASSERT_TRUE(Shows("live", kShard));
  EXPECT_EQ(Drawn("went"), nullptr);
  PressOverLanes(ImGuiMod_Shift | ImGuiKey_M, 0, 140);
  ASSERT_TRUE(Shows("went", kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("came")->value), 0);
  EXPECT_EQ(std::get<int64_t>(Drawn("live")->value), kShard);
}

TEST_F(BlocksTest, AClickIntoMemoryShowsThatMomentAndOneOnABlockItsOp) {
  ClickMemory(0, 140, false);
  ASSERT_TRUE(Shows("live", kShard + kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("rank")->value), 0);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "blocks", "block:0"));
    test->MouseClick();
  }));
  const ui::Selection& selection = harness_.context().selection;
  ASSERT_FALSE(selection.op_run.is_none());
  EXPECT_EQ(selection.rank, 0);
  const auto& runs = harness_.context().snapshot->FindRank(0)->op_runs;
  const auto run = std::find_if(runs.begin(), runs.end(),
                                [&](const query::OpRun& it) { return it.id == selection.op_run; });
  ASSERT_NE(run, runs.end());
  EXPECT_EQ(run->started_ns, 120 * kBlocksMs);
  harness_.Frames(6);
  EXPECT_NE(Drawn("block:0"), nullptr);  // Details does not come over them
}

TEST_F(BlocksTest, WithCtrlItIsTheMomentToCompareWith) {
  ClickMemory(0, 180, false);
  ASSERT_TRUE(Shows("live", kShard));
  ClickMemory(0, 140, true);
  ASSERT_TRUE(Shows("went", kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("came")->value), 0);
  // The moments stand in Memory.
  const ui::DrawnItem* at = harness_.log().Find("memory", "blocks_at");
  const ui::DrawnItem* since = harness_.log().Find("memory", "blocks_since");
  ASSERT_TRUE(at != nullptr && since != nullptr);
  EXPECT_LT(since->box.x1, at->box.x0);
  ASSERT_NE(Drawn("gone:0"), nullptr);
  EXPECT_THAT(Drawn("gone:0")->text, HasSubstr("F block0"));
  harness_.shell().Post(ui::CompareBlocks{});
  EXPECT_TRUE(harness_.Until([&] { return Drawn("came") == nullptr; }, kBlocksSeconds));
}

TEST_F(BlocksTest, WhicheverOfTwoMomentsIsChosenFirstTheEarlierOneIsTheStart) {
  ClickMemory(0, 140, false);
  ASSERT_TRUE(Shows("live", kShard + kGathered));
  ClickMemory(0, 180, true);
  ASSERT_TRUE(Shows("went", kGathered));
  const ui::BlocksState& blocks = harness_.context().blocks;
  ASSERT_TRUE(blocks.at_ns && blocks.since_ns);
  EXPECT_LT(*blocks.since_ns, *blocks.at_ns);
  EXPECT_EQ(blocks.rank, 0);
}

// Not over the lesson that asks for a click, wherever that is docked.
TEST_F(BlocksTest, AClickOnAnOpBringsDetailsToTheFrontAndSoDoesAKey) {
  const auto is_shown = [this] { return harness_.log().Find("details", "title") != nullptr; };
  const auto put_behind = [&](const char* panel) {
    harness_.shell().Post(ui::FocusPanel{panel});
    harness_.Frames(8);
    EXPECT_FALSE(is_shown()) << panel;
  };
  const auto click_an_op = [this] {
    for (const ui::DrawnItem& item : harness_.log().items()) {
      const bool is_wide = item.box.x1 - item.box.x0 > 20;
      if (item.panel != "timeline" || !item.id.starts_with("op_run:0:") || !is_wide) continue;
      const ImVec2 middle((item.box.x0 + item.box.x1) / 2, (item.box.y0 + item.box.y1) / 2);
      EXPECT_TRUE(harness_.Drive([middle](ImGuiTestContext* test) {
        test->MouseMoveToPos(middle);
        test->MouseClick();
      }));
      harness_.Frames(6);
      return;
    }
    ADD_FAILURE() << "no op is wide enough";
  };
  put_behind("blocks");
  click_an_op();
  EXPECT_TRUE(is_shown());
  put_behind("blocks");
  Press(ImGuiKey_I);
  harness_.Frames(8);
  EXPECT_TRUE(is_shown());

  ImGui::DockBuilderDockWindow("###lessons", ImGui::FindWindowByName("###details")->DockId);
  harness_.Frames(4);
  put_behind("lessons");
  click_an_op();
  EXPECT_FALSE(harness_.context().selection.op_run.is_none());
  EXPECT_FALSE(is_shown());
}

TEST_F(BlocksTest, AMomentOfAnotherRankIsRefusedWithASentence) {
  ClickMemory(0, 180, false);
  ASSERT_TRUE(Shows("live", kShard));
  const auto is_refused = [this] {
    const ui::DrawnItem* said = harness_.log().Find("notice", "error");
    const ui::BlocksState& blocks = harness_.context().blocks;
    return said != nullptr &&
           said->text.starts_with(
               "The blocks that are shown are of rank 0, this moment is of "
               "rank 1:") &&
           blocks.rank == 0 && blocks.at_ns && !blocks.since_ns;
  };
  ClickMemory(1, 140, true);
  EXPECT_TRUE(harness_.Until(is_refused, kBlocksSeconds));
  harness_.shell().Post(ui::DismissNotice{});
  harness_.Frames(2);
  EXPECT_FALSE(is_refused());
  PressOverLanes(ImGuiMod_Shift | ImGuiKey_M, 1, 140);
  EXPECT_TRUE(harness_.Until(is_refused, kBlocksSeconds));
  harness_.shell().Post(ui::DismissNotice{});
  harness_.Frames(2);
  // Of the same rank it is compared, until a moment of another is shown.
  ClickMemory(0, 140, true);
  EXPECT_TRUE(Shows("went", kGathered));
  ClickMemory(1, 180, false);
  EXPECT_TRUE(
      harness_.Until([this] { return harness_.context().blocks.rank == 1; }, kBlocksSeconds));
  EXPECT_FALSE(harness_.context().blocks.since_ns);
}

TEST_F(BlocksTest, TooltipsOfMemoryKeepClearOfANotice) {
  ClickMemory(0, 180, false);
  ASSERT_TRUE(Shows("live", kShard));
  ClickMemory(1, 140, true);
  ASSERT_TRUE(harness_.Until([this] { return harness_.log().Find("notice", "error") != nullptr; },
                             kBlocksSeconds));
  int tooltips = 0;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ui::Box minimap = harness_.log().Find("timeline", "minimap")->box;
    const ui::Box axis = harness_.log().Find("memory", "axis_max:1")->box;
    for (const float share : {0.2F, 0.35F, 0.5F, 0.65F, 0.8F}) {
      for (const float below : {10.0F, 25.0F, 40.0F}) {
        test->MouseMoveToPos({minimap.x0 + (minimap.x1 - minimap.x0) * share, axis.y1 + below});
        test->Yield(2);
        const ui::DrawnItem* tooltip = harness_.log().Find("memory", "tooltip");
        const ui::DrawnItem* notice = harness_.log().Find("notice", "error");
        if (tooltip == nullptr || notice == nullptr) continue;
        ++tooltips;
        const bool is_apart =
            tooltip->box.x1 <= notice->box.x0 || tooltip->box.x0 >= notice->box.x1 ||
            tooltip->box.y1 <= notice->box.y0 || tooltip->box.y0 >= notice->box.y1;
        EXPECT_TRUE(is_apart) << share << " " << below;
      }
    }
  }));
  EXPECT_GT(tooltips, 0);
}

TEST_F(BlocksTest, WhatIsUnderTheMouseIsForgottenWhereAnotherPanelComesBeforeIt) {
  PressOverLanes(ImGuiKey_L, 0, 140);
  harness_.Frames(8);
  EXPECT_EQ(harness_.context().hover_ns, -1);
  EXPECT_EQ(harness_.context().hover_rank, -1);
}

// Rank 1 takes more, and would be shown.
TEST_F(BlocksTest, BeforeAMomentWasChosenOneWithCtrlIsComparedWithThePeakOfItsRank) {
  ClickMemory(0, 110, true);
  ASSERT_TRUE(Shows("came", kGathered));
  EXPECT_EQ(std::get<int64_t>(Drawn("rank")->value), 0);
  EXPECT_EQ(std::get<int64_t>(Drawn("at")->value), 120 * kBlocksMs);
}

TEST_F(BlocksTest, WhileTheTimeLensPlaysTheBlocksAreOfItsMoment) {
  ClickMemory(0, 180, false);
  ASSERT_TRUE(Shows("live", kShard));
  harness_.shell().Post(ui::OpenLens{0});
  harness_.Frames(3);
  harness_.shell().Post(ui::SetLensSlowness{10'000});
  harness_.shell().Post(ui::SeekLens{140 * kBlocksMs});
  harness_.shell().Post(ui::FocusPanel{"blocks"});
  ASSERT_TRUE(Shows("live", kShard + kGathered));
  const ui::LensState& lens = harness_.context().lens;
  EXPECT_TRUE(lens.plays);
  const int64_t at_ns = std::get<int64_t>(Drawn("at")->value);
  EXPECT_GT(at_ns, 139 * kBlocksMs);
  EXPECT_LE(at_ns, lens.now_ns);
  // And go on with it.
  EXPECT_TRUE(harness_.Until(
      [&] { return Drawn("at") != nullptr && std::get<int64_t>(Drawn("at")->value) > at_ns; },
      kBlocksSeconds));
  EXPECT_TRUE(lens.plays);
}

TEST_F(BlocksTest, AMomentOfAnotherRunIsForgotten) {
  ClickMemory(1, 140, false);
  ASSERT_TRUE(Shows("live", kShard + 2 * kGathered));
  harness_.shell().Post(ui::CloseRun{});
  harness_.Frames(3);
  ASSERT_NE(Drawn("empty"), nullptr);
  EXPECT_EQ(harness_.context().blocks.answer, nullptr);
}

TEST_F(BlocksTest, WhatWouldChangeThePeakIsListedAndShown) {
  harness_.shell().Post(ui::ShowMemoryChoices{});
  const auto drawn = [this](const std::string& id) { return harness_.log().Find("blocks", id); };
  EXPECT_TRUE(harness_.Until([&] { return drawn("needed") != nullptr; }, kBlocksSeconds));
  const ui::MemoryChoice& least = harness_.context().blocks.choices->choices.front();
  const std::string id = "choice:" + footprint::TextOf(least.settings);
  ASSERT_NE(drawn(id), nullptr);
  EXPECT_EQ(std::get<int64_t>(drawn(id)->value), least.needed_bytes);
  EXPECT_LT(least.needed_bytes, std::get<int64_t>(drawn("needed")->value));
  EXPECT_THAT(drawn(id)->text, HasSubstr(EffectText(ui::Language::kEnglish, least)));
  // A run that has ended cannot be turned: its key in the form of a new one.
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "blocks", id));
    test->MouseClick();
  }));
  harness_.Frames(6);
  EXPECT_EQ(harness_.context().shown_key.key, least.settings.begin()->first);
  EXPECT_TRUE(harness_.context().shown_key.in_form);
  // Another moment: its blocks.
  harness_.shell().Post(ui::AskBlocks{0, 130 * kBlocksMs});
  EXPECT_TRUE(harness_.Until([&] { return drawn("live") != nullptr; }, kBlocksSeconds));
  EXPECT_EQ(drawn("needed"), nullptr);
}

}  // namespace
}  // namespace shardscope::ui_test
