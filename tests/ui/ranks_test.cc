// The panels Ranks and Collectives, and the lines that join a collective, driven as a user would.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/report/report.h"
#include "ui/ranks.h"

namespace shardscope::ui_test {
namespace {

constexpr int kSlowRank = 11;

class RanksTest : public testing::Test {
 protected:
  RanksTest() : snapshot_(analysis::MakeLessonSnapshot(16, 20, 10, kSlowRank)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }

  void Press(ImGuiKeyChord chord) {
    EXPECT_TRUE(harness_.Drive([chord](ImGuiTestContext* test) { test->KeyPress(chord); }));
    harness_.Frames(6);
  }
  void Click(const char* panel, const std::string& id, ImGuiKeyChord with = 0) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, panel, id));
      if (with != 0) test->KeyDown(with);
      test->MouseClick();
      if (with != 0) test->KeyUp(with);
    }));
    harness_.Frames(6);
  }
  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("ranks", id);
  }
  bool HasLanes(int32_t rank) const {
    return harness_.log().Find("timeline", "rank:" + std::to_string(rank)) != nullptr;
  }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(RanksTest, ShowsWhatAnalysisSays) {
  EXPECT_EQ(harness_.context().ranks, nullptr);  // is behind other tabs: nothing is made
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  const analysis::Report report = analysis::MakeReport(*snapshot_);
  const auto grid =
      std::make_shared<analysis::RankGrid>(analysis::MakeRankGrid(*snapshot_, report.steps));
  const analysis::RankOverview expected = analysis::MakeRankOverview(
      *snapshot_, grid, report.figures.scope, report.figures.explanation.front);
  ASSERT_TRUE(expected.findings.straggler);
  EXPECT_EQ(expected.findings.straggler->ranks, (std::vector<int32_t>{kSlowRank}));
  ASSERT_NE(Drawn("sentence"), nullptr);
  EXPECT_EQ(Drawn("sentence")->text, ui::RankSentence(ui::Language::kEnglish, expected.findings));
  int cells = 0;
  for (const ui::DrawnItem& item : harness_.log().items()) {
    if (item.panel != "ranks" || !item.id.starts_with("cell:")) continue;
    const size_t colon = item.id.find(':', 5);
    const auto rank = static_cast<size_t>(std::stoi(item.id.substr(5, colon - 5)));
    const auto step = static_cast<size_t>(std::stoi(item.id.substr(colon + 1)));
    const auto wanted = ValueOf(grid->At(rank, step), analysis::RankFigure::kLateness);
    ASSERT_TRUE(wanted);
    EXPECT_FLOAT_EQ(static_cast<float>(std::get<double>(item.value)), static_cast<float>(*wanted));
    ++cells;
  }
  EXPECT_GE(cells, 10 * 20);  // of the rows in sight
  for (const analysis::RankFigures& rank : expected.findings.ranks) {
    const ui::DrawnItem* value = Drawn("value:" + std::to_string(rank.rank));
    if (value == nullptr) continue;
    EXPECT_EQ(std::get<double>(value->value), rank.late_ns);
  }
}

TEST_F(RanksTest, ACellLeadsToItsRankAndStep) {
  ASSERT_TRUE(harness_.context().lanes.folded_ranks.contains(5));
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  Click("ranks", "cell:5:3");
  EXPECT_FALSE(harness_.context().lanes.folded_ranks.contains(5));
  harness_.Frames(40);  // the view moves there
  const query::Step& step = snapshot_->ranks[5].steps[3];
  EXPECT_LE(harness_.context().view.start_ns, step.start_ns);
  EXPECT_GE(harness_.context().view.end_ns, step.end_ns);
  EXPECT_TRUE(HasLanes(5));  // in sight
  EXPECT_FALSE(HasLanes(0));
}

TEST_F(RanksTest, TheSentenceLeadsToTheSlowRankByKeyboard) {
  harness_.Resize(1200, 420);
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    const ImGuiID sentence = test->GetID("//###ranks/sentence");
    int left = 30;
    do {
      test->KeyPress(ImGuiKey_Tab);
    } while (ImGui::GetFocusID() != sentence && --left > 0);
    EXPECT_EQ(ImGui::GetFocusID(), sentence);
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(4);
  }));
  EXPECT_NE(Drawn("row:" + std::to_string(kSlowRank)), nullptr);
}

TEST_F(RanksTest, AFilterChoosesRowsAndLanes) {
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  EXPECT_EQ(Drawn("only_these"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "ranks", "filter"));
    test->MouseClick();
    test->KeyCharsReplace("3,9-11");
  }));
  harness_.Frames(4);
  EXPECT_EQ(Drawn("row:0"), nullptr);
  EXPECT_NE(Drawn("row:3"), nullptr);
  EXPECT_NE(Drawn("row:11"), nullptr);
  Click("ranks", "only_these");
  EXPECT_EQ(harness_.context().lanes.hidden_ranks.size(), 12u);
  Press(ImGuiMod_Ctrl | ImGuiKey_1);
  EXPECT_TRUE(HasLanes(3));
  EXPECT_FALSE(HasLanes(0));
  EXPECT_FALSE(HasLanes(4));
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  Click("ranks", "all_lanes");
  EXPECT_TRUE(harness_.context().lanes.hidden_ranks.empty());

  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "ranks", "filter"));
    test->MouseClick();
    test->KeyCharsReplace("shard=1");
  }));
  harness_.Frames(4);
  ASSERT_NE(Drawn("error"), nullptr);
  EXPECT_THAT(Drawn("error")->text, testing::HasSubstr("no mesh"));
  EXPECT_NE(Drawn("row:3"), nullptr);  // as before

  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 20, 10));
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  ASSERT_NE(Drawn("error"), nullptr);
  EXPECT_NE(Drawn("row:0"), nullptr);
  EXPECT_NE(Drawn("row:1"), nullptr);
  EXPECT_EQ(Drawn("only_these"), nullptr);

  // Also where the other run has ranks of the same numbers.
  const auto other = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(4, 20, 10));
  other->run_folder = "runs/other";
  harness_.shell().OpenSnapshot(other);
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  ASSERT_NE(Drawn("error"), nullptr);
  EXPECT_NE(Drawn("row:3"), nullptr);
  EXPECT_EQ(Drawn("only_these"), nullptr);
}

TEST_F(RanksTest, AnotherRunIsNotScrolledToWhereTheOneBeforeWas) {
  harness_.Resize(1600, 600);
  harness_.shell().Post(ui::FoldRanks{false});
  harness_.shell().Post(ui::ShowRank{15, 5});
  harness_.Frames(8);
  EXPECT_TRUE(HasLanes(15));
  EXPECT_FALSE(HasLanes(0));
  const auto other = std::make_shared<query::Snapshot>(*snapshot_);
  other->run_folder = "runs/other";
  harness_.shell().OpenSnapshot(other);
  harness_.Frames(8);
  EXPECT_TRUE(HasLanes(0));
}

TEST_F(RanksTest, TheTimelineSaysHowManyRanksHaveNoLanesAndShowsThem) {
  const auto line = [this] { return harness_.log().Find("timeline", "hidden_ranks"); };
  Press(ImGuiMod_Ctrl | ImGuiKey_1);
  EXPECT_EQ(line(), nullptr);
  harness_.shell().Post(ui::PlaceRanks{{1}, ui::RankPlace::kPinned});
  harness_.shell().Post(ui::PlaceRanks{{3, 4, 5}, ui::RankPlace::kHidden});
  harness_.Frames(4);
  ASSERT_NE(line(), nullptr);
  EXPECT_EQ(line()->text, "hidden ranks: 3 · show");
  Click("timeline", "hidden_ranks");
  harness_.Frames(4);
  EXPECT_TRUE(harness_.context().lanes.hidden_ranks.empty());
  EXPECT_EQ(harness_.context().lanes.pinned_ranks, (std::set<int32_t>{1}));
  EXPECT_EQ(line(), nullptr);

  // By keyboard, where nothing but the line is left.
  std::vector<int32_t> all;
  for (const query::RankRows& rows : snapshot_->ranks) all.push_back(rows.rank);
  harness_.shell().Post(ui::PlaceRanks{all, ui::RankPlace::kHidden});
  harness_.Frames(4);
  ASSERT_NE(line(), nullptr);
  EXPECT_FALSE(HasLanes(0));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    const ImGuiID wanted = test->GetID("//###timeline/hidden_ranks");
    int left = 30;
    do {
      test->KeyPress(ImGuiKey_Tab);
    } while (ImGui::GetFocusID() != wanted && --left > 0);
    EXPECT_EQ(ImGui::GetFocusID(), wanted);
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(4);
  }));
  EXPECT_TRUE(harness_.context().lanes.hidden_ranks.empty());
  EXPECT_TRUE(HasLanes(0));
}

// However low its row: a sign, and words under the mouse.
TEST_F(RanksTest, ARankWithoutLanesIsMarked) {
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  EXPECT_EQ(Drawn("hidden:3"), nullptr);
  harness_.shell().Post(ui::PlaceRanks{{3}, ui::RankPlace::kHidden});
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  ASSERT_NE(Drawn("hidden:3"), nullptr);
  EXPECT_EQ(Drawn("hidden:4"), nullptr);
  const ui::Box sign = Drawn("hidden:3")->box;
  const ui::Box row = Drawn("row:3")->box;
  EXPECT_FLOAT_EQ((sign.y0 + sign.y1) / 2, (row.y0 + row.y1) / 2);
  const auto tip_at = [&](ImVec2 place) {
    std::string tip;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(place);
      test->Yield(2);
      if (Drawn("tooltip") != nullptr) tip = Drawn("tooltip")->text;
    }));
    return tip;
  };
  EXPECT_THAT(tip_at({(sign.x0 + sign.x1) / 2, (sign.y0 + sign.y1) / 2}),
              testing::StartsWith("rank 3, no lanes"));
  EXPECT_THAT(tip_at(PlaceOf(harness_, "ranks", "cell:3:3")),
              testing::StartsWith("rank 3, step 3, no lanes"));
}

TEST_F(RanksTest, NoCalloutStandsBesideLanesThatAreOutOfSight) {
  const ui::Selection selection = harness_.context().selection;
  ASSERT_FALSE(selection.op_run.is_none());  // the op that teaches most
  ASSERT_EQ(selection.rank, 0);
  const int32_t step = harness_.context().focus.step;
  const auto slack = [&](int32_t rank) {
    harness_.shell().Post(ui::ShowRank{rank, step});
    harness_.shell().Post(ui::FitSelection{});
    harness_.Frames(40);
    EXPECT_TRUE(HasLanes(rank));
    return harness_.log().Find("timeline", "slack") != nullptr;
  };
  EXPECT_TRUE(slack(0));
  EXPECT_FALSE(slack(13));
  EXPECT_FALSE(HasLanes(0));
}

TEST_F(RanksTest, TheLensTellsOfPinnedRanksFirst) {
  harness_.shell().Post(ui::PlaceRanks{{12}, ui::RankPlace::kPinned});
  harness_.shell().Post(ui::OpenLens{5});
  ASSERT_TRUE(harness_.Until([&] { return harness_.context().lens.moment.has_value(); }, 20));
  harness_.Frames(2);
  const auto told = [&](int32_t rank) {
    return harness_.log().Find("timeline", "moment:" + std::to_string(rank));
  };
  ASSERT_TRUE(told(12) != nullptr && told(0) != nullptr);
  EXPECT_LT(told(12)->box.y0, told(0)->box.y0);
  EXPECT_TRUE(told(1) != nullptr && told(2) != nullptr);
  EXPECT_EQ(told(3), nullptr);  // there is room for four
}

TEST_F(RanksTest, AClickOnALabelPutsItsLanesOnTopAndShiftTakesThemAway) {
  harness_.shell().Post(ui::ShowRank{15, 3});  // which scrolls the lanes down
  harness_.Frames(8);
  ASSERT_FALSE(HasLanes(0));
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  const auto label = [&](const std::string& id, ImGuiKeyChord with) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      const ui::DrawnItem* row = Drawn(id);
      ASSERT_NE(row, nullptr);
      test->MouseMoveToPos({row->box.x0 + 30, (row->box.y0 + row->box.y1) / 2});
      if (with != 0) test->KeyDown(with);
      test->MouseClick();
      if (with != 0) test->KeyUp(with);
    }));
    harness_.Frames(4);
  };
  label("row:7", 0);
  label("row:0", ImGuiMod_Shift);
  EXPECT_EQ(harness_.context().lanes.pinned_ranks, (std::set<int32_t>{7}));
  EXPECT_EQ(harness_.context().lanes.hidden_ranks, (std::set<int32_t>{0}));
  Press(ImGuiMod_Ctrl | ImGuiKey_1);
  EXPECT_FALSE(HasLanes(0));
  ASSERT_TRUE(HasLanes(7));
  ASSERT_TRUE(HasLanes(1));
  EXPECT_LT(harness_.log().Find("timeline", "rank:7")->box.y0,
            harness_.log().Find("timeline", "rank:1")->box.y0);
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  label("row:7", 0);  // again: no longer
  EXPECT_TRUE(harness_.context().lanes.pinned_ranks.empty());
}

TEST_F(RanksTest, MemoryShowsTheRanksThatTheTimelineShows) {
  const auto first_rows = [this] {
    std::vector<std::pair<float, int64_t>> rows;
    for (const ui::DrawnItem& item : harness_.log().items()) {
      if (item.panel != "memory" || !item.id.starts_with("rank:")) continue;
      rows.emplace_back(item.box.y0, std::get<int64_t>(item.value));
    }
    std::sort(rows.begin(), rows.end());
    std::vector<int64_t> ranks;
    for (size_t at = 0; at < std::min<size_t>(rows.size(), 2); ++at) {
      ranks.push_back(rows[at].second);
    }
    return ranks;
  };
  using Ranks = std::vector<int64_t>;
  harness_.shell().Post(ui::ShowRank{9, 3});
  harness_.Frames(8);
  ASSERT_EQ(first_rows(), (Ranks{9, 10}));
  // Whatever is hidden before it, the same rank stays the first.
  harness_.shell().Post(ui::PlaceRanks{{2, 3}, ui::RankPlace::kHidden});
  harness_.Frames(8);
  EXPECT_EQ(first_rows(), (Ranks{9, 10}));
  harness_.shell().Post(ui::PlaceRanks{{9}, ui::RankPlace::kHidden});
  harness_.Frames(8);
  EXPECT_EQ(first_rows(), (Ranks{10, 11}));
  // A pinned one comes into sight, as its lanes do, and stays when it is no longer.
  harness_.shell().Post(ui::PlaceRanks{{7}, ui::RankPlace::kPinned});
  harness_.Frames(8);
  ASSERT_TRUE(HasLanes(7));
  EXPECT_EQ(first_rows(), (Ranks{7, 0}));
  harness_.shell().Post(ui::PlaceRanks{{7}, ui::RankPlace::kInOrder});
  harness_.Frames(8);
  EXPECT_EQ(first_rows(), (Ranks{0, 1}));
  // A drag scrolls them, as it does lanes: up by one row, hidden ones left out.
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ui::Box second = harness_.log().Find("memory", "axis_max:1")->box;
    const float row = second.y0 - harness_.log().Find("memory", "axis_max:0")->box.y0;
    const ImVec2 from(second.x1 + 300, second.y1 + 20);
    test->MouseMoveToPos(from);
    test->MouseDown();
    test->MouseMoveToPos({from.x, from.y - row});
    test->MouseUp();
  }));
  harness_.Frames(4);
  EXPECT_EQ(first_rows(), (Ranks{1, 4}));
}

TEST_F(RanksTest, ADraggedNameMovesItsLanesToTheLine) {
  harness_.shell().Post(ui::FoldRanks{});
  harness_.Frames(8);
  const int64_t start_ns = harness_.context().view.start_ns;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ImVec2 from = PlaceOf(harness_, "timeline", "rank:1");
    const float above = PlaceOf(harness_, "timeline", "rank:3").y;
    const float below = PlaceOf(harness_, "timeline", "rank:4").y;
    test->MouseMoveToPos(from);
    test->MouseDown();
    test->MouseMoveToPos({from.x + 20, from.y + 20});
    test->MouseMoveToPos({from.x + 20, (above + below) / 2});
    test->Yield(2);
    const ui::DrawnItem* line = harness_.log().Find("timeline", "rank_lands");
    ASSERT_NE(line, nullptr);
    EXPECT_EQ(std::get<int64_t>(line->value), 4);
    EXPECT_GT(line->box.y0, above);
    EXPECT_LT(line->box.y1, below);
    EXPECT_TRUE(harness_.context().lanes.rank_order.empty());
    test->MouseUp();
    test->Yield(2);
  }));
  const ui::Lanes& lanes = harness_.context().lanes;
  const std::vector<int32_t> shown = ui::RanksInOrder(*snapshot_, lanes);
  EXPECT_EQ(std::vector<int32_t>(shown.begin(), shown.begin() + 5),
            (std::vector<int32_t>{0, 2, 3, 1, 4}));
  EXPECT_EQ(harness_.log().Find("timeline", "rank_lands"), nullptr);
  ASSERT_TRUE(HasLanes(1) && HasLanes(3));
  EXPECT_GT(harness_.log().Find("timeline", "rank:1")->box.y0,
            harness_.log().Find("timeline", "rank:3")->box.y0);
  EXPECT_TRUE(lanes.folded_ranks.contains(1));  // it was no click
  EXPECT_EQ(harness_.context().view.start_ns, start_ns);
  Press(ImGuiMod_Ctrl | ImGuiKey_6);
  Click("ranks", "original_order");
  EXPECT_TRUE(lanes.rank_order.empty());
  EXPECT_EQ(Drawn("original_order"), nullptr);
}

TEST_F(RanksTest, AnOpThatIsRevealedHasLanesAndItsRankIsInSightInMemory) {
  const auto in_memory = [this](int32_t rank) {
    return harness_.log().Find("memory", "rank:" + std::to_string(rank)) != nullptr;
  };
  const ui::Context& context = harness_.context();
  harness_.shell().Post(ui::PlaceRanks{{13}, ui::RankPlace::kHidden});
  harness_.Frames(6);
  ASSERT_FALSE(in_memory(13));
  const query::OpRunId op = snapshot_->ranks[13].op_runs[0].id;
  harness_.shell().Post(ui::SelectOp{op, 13});
  harness_.Frames(6);
  EXPECT_TRUE(context.lanes.hidden_ranks.contains(13));
  harness_.shell().Post(ui::SelectOp{op, 13, false, true});
  harness_.Frames(8);
  EXPECT_EQ(context.selection.op_run, op);
  EXPECT_FALSE(context.lanes.hidden_ranks.contains(13));
  ASSERT_TRUE(context.revealed.what);
  EXPECT_EQ(context.revealed.what->rank, 13);
  EXPECT_TRUE(in_memory(13));
  // One that is in sight moves nothing.
  ASSERT_TRUE(in_memory(14) || in_memory(12));
  const int32_t beside = in_memory(14) ? 14 : 12;
  harness_.shell().Post(
      ui::ShowOp{snapshot_->ranks[static_cast<size_t>(beside)].op_runs[0].id, beside});
  harness_.Frames(8);
  EXPECT_TRUE(in_memory(13));
  EXPECT_TRUE(in_memory(beside));
}

TEST_F(RanksTest, KeysMoveTheLanesOfTheRankThatHasTheSelection) {
  harness_.shell().Post(ui::SelectOp{snapshot_->ranks[1].op_runs[0].id, 1, false});
  harness_.Frames(4);
  const auto first_three = [&](ImGuiKeyChord chord) {
    Press(ImGuiMod_Ctrl | chord);
    const std::vector<int32_t> shown = ui::RanksInOrder(*snapshot_, harness_.context().lanes);
    return std::vector<int32_t>(shown.begin(), shown.begin() + 3);
  };
  EXPECT_EQ(first_three(ImGuiKey_RightBracket), (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(first_three(ImGuiKey_LeftBracket), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(harness_.context().lanes.rank_order.empty());  // as it was
  EXPECT_EQ(first_three(ImGuiKey_LeftBracket), (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(first_three(ImGuiKey_LeftBracket), (std::vector<int32_t>{1, 0, 2}));
  harness_.shell().Post(ui::PlaceRanks{{5}, ui::RankPlace::kPinned});
  EXPECT_EQ(first_three(ImGuiKey_LeftBracket), (std::vector<int32_t>{5, 1, 0}));
  harness_.shell().Post(ui::OrderRanks{});
  harness_.Frames(2);
  EXPECT_EQ(ui::RanksInOrder(*snapshot_, harness_.context().lanes)[1], 0);
}

TEST_F(RanksTest, CollectivesAreThoseOfTheReport) {
  Press(ImGuiMod_Ctrl | ImGuiKey_7);
  const analysis::ScopedSteps scope = harness_.context().figures->scope;
  const analysis::CollectiveTable expected = MakeCollectiveTable(*snapshot_, scope);
  int rows = 0;
  for (const analysis::CollectiveGroup& group : expected.groups) {
    const std::string name = group.key.kind + " " + group.key.unit + " " + group.key.communicator;
    const ui::DrawnItem* wait = harness_.log().Find("collectives", "wait:" + name);
    if (wait == nullptr) continue;  // below the last row in sight
    ++rows;
    const auto calls = static_cast<double>(group.sums.calls);
    EXPECT_EQ(std::get<double>(wait->value), static_cast<double>(group.sums.wait_ns) / calls);
    const ui::DrawnItem* bandwidth = harness_.log().Find("collectives", "bandwidth:" + name);
    ASSERT_NE(bandwidth, nullptr);
    EXPECT_EQ(std::get<double>(bandwidth->value), group.sums.bus_bandwidth());
    EXPECT_THAT(bandwidth->text, testing::EndsWith("*"));  // its link is emulated
  }
  EXPECT_GE(rows, 4);
  EXPECT_NE(harness_.log().Find("collectives", "emulated"), nullptr);
  const ui::DrawnItem* points = harness_.log().Find("collectives", "points");
  ASSERT_NE(points, nullptr);
  EXPECT_EQ(std::get<int64_t>(points->value), static_cast<int64_t>(expected.points.size()));

  // Instead of the points who sends to whom.
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->SetRef("//###collectives");
    test->ItemClick("chart/who sends to whom");
  }));
  harness_.Frames(4);
  EXPECT_EQ(harness_.log().Find("collectives", "points"), nullptr);
  const auto steps = static_cast<double>(expected.steps.size());
  for (size_t from = 0; from < 16; ++from) {
    for (size_t to = 0; to < 16; ++to) {
      const ui::DrawnItem* sent = harness_.log().Find(
          "collectives", "sent:" + std::to_string(from) + ":" + std::to_string(to));
      ASSERT_EQ(sent != nullptr, expected.matrix.At(from, to) > 0) << from << " " << to;
      if (sent == nullptr) continue;
      EXPECT_EQ(std::get<double>(sent->value),
                static_cast<double>(expected.matrix.At(from, to)) / steps);
    }
  }

  // Sorted by what is clicked: the first row waits longest.
  Click("collectives", "header:wait");
  const auto longest = std::max_element(
      expected.groups.begin(), expected.groups.end(), [](const auto& a, const auto& b) {
        return a.sums.wait_ns * b.sums.calls < b.sums.wait_ns * a.sums.calls;
      });
  ASSERT_NE(harness_.log().Find("collectives", "row:0"), nullptr);
  EXPECT_EQ(harness_.log().Find("collectives", "row:0")->text,
            longest->key.kind + " " + longest->key.unit + " " + longest->key.communicator);
  Click("collectives", "row:0");
  EXPECT_EQ(harness_.context().selection.op_run, longest->longest);
  EXPECT_EQ(harness_.context().selection.rank, longest->longest_rank);
}

TEST_F(RanksTest, AnOpThatIsShownFromElsewhereIsInSightAndDetailsTellOfIt) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.shell().Post(ui::AskBlocks{});
  harness_.Frames(8);
  const auto show = [&](size_t at) {
    const query::RankRows& rows = snapshot_->ranks[at];
    query::OpRunId longest = query::OpRunId::None();
    int64_t longest_ns = 0;
    rows.op_runs.ForEachOfSteps(4, 4, [&](const query::OpRun& run, size_t) {
      if (run.ended_ns - run.started_ns <= longest_ns) return;
      longest_ns = run.ended_ns - run.started_ns;
      longest = run.id;
    });
    harness_.shell().Post(ui::ShowOp{longest, rows.rank});
    harness_.Frames(60);
    EXPECT_EQ(harness_.context().selection.op_run, longest);
    EXPECT_FALSE(harness_.context().lanes.folded_ranks.contains(rows.rank));
    EXPECT_NE(harness_.log().Find("details", "title"), nullptr);
    return harness_.log().Find("timeline", fmt::format("op_run:{}:{}", rows.rank, longest.value()));
  };
  EXPECT_NE(show(snapshot_->ranks.size() - 1), nullptr);
  EXPECT_NE(show(1), nullptr);
}

TEST_F(RanksTest, ASelectedCollectiveIsJoinedOverTheLanesOfItsRanks) {
  const std::vector<analysis::CollectiveRun> runs = analysis::Collectives(*snapshot_, 5, 5);
  const auto run = std::find_if(runs.begin(), runs.end(), [](const auto& one) {
    return one.rank == 2 && one.last_rank == kSlowRank;
  });
  ASSERT_NE(run, runs.end());
  harness_.shell().Post(ui::SelectOp{run->op_run, 2, false});
  harness_.shell().Post(ui::PlaceRanks{{4}, ui::RankPlace::kHidden});
  harness_.Frames(4);
  int joined = 0;
  for (const ui::DrawnItem& item : harness_.log().items()) {
    if (!item.id.starts_with("joined:")) continue;
    ++joined;
    const int32_t rank = std::stoi(item.id.substr(7));
    const auto other = std::find_if(runs.begin(), runs.end(), [&](const auto& one) {
      return one.rank == rank && one.sequence == run->sequence;
    });
    ASSERT_NE(other, runs.end());
    EXPECT_EQ(std::get<int64_t>(item.value), other->started_ns);
  }
  EXPECT_EQ(joined, 15);  // all but the hidden one
  const ui::DrawnItem* last = harness_.log().Find("timeline", "came_last");
  ASSERT_NE(last, nullptr);
  EXPECT_THAT(last->text, testing::StartsWith("rank 11 comes last"));
  // Nor is it cut where the arrival is at the lanes' left edge.
  const auto slowest = std::find_if(runs.begin(), runs.end(), [&](const auto& one) {
    return one.rank == kSlowRank && one.sequence == run->sequence;
  });
  ASSERT_NE(slowest, runs.end());
  const int64_t length_ns = snapshot_->FindRank(kSlowRank)->steps[5].end_ns - slowest->started_ns;
  harness_.shell().Post(ui::SetView{slowest->started_ns - length_ns / 1000,
                                    slowest->started_ns + length_ns, false, false});
  harness_.Frames(4);
  last = harness_.log().Find("timeline", "came_last");
  const std::string arrival = "joined:" + std::to_string(kSlowRank);
  const ui::DrawnItem* arrived = harness_.log().Find("timeline", arrival);
  ASSERT_TRUE(last != nullptr && arrived != nullptr);
  EXPECT_GE(last->box.x0, arrived->box.x0 - 10);
}

TEST_F(RanksTest, WhatIsSaidOfACollectiveIsWrappedInANarrowTimeline) {
  const std::vector<analysis::CollectiveRun> runs = analysis::Collectives(*snapshot_, 5, 5);
  const auto run = std::find_if(runs.begin(), runs.end(), [](const auto& one) {
    return one.rank == 2 && one.last_rank == kSlowRank;
  });
  ASSERT_NE(run, runs.end());
  harness_.shell().Post(ui::SelectOp{run->op_run, 2, false});
  constexpr int64_t kAroundNs = 2'000'000;
  harness_.shell().Post(ui::SetView{run->last_arrival_ns - kAroundNs,
                                    run->last_arrival_ns + kAroundNs, false, false});
  harness_.Frames(4);
  const ui::DrawnItem* said = harness_.log().Find("timeline", "came_last");
  ASSERT_NE(said, nullptr);
  const float line = said->box.y1 - said->box.y0;
  harness_.Resize(1100, 700);
  harness_.shell().Post(ui::SetScale{2});
  harness_.Frames(12);
  said = harness_.log().Find("timeline", "came_last");
  ASSERT_NE(said, nullptr);
  EXPECT_LE(said->box.x1, ImGui::FindWindowByName("###timeline")->InnerRect.Max.x);
  EXPECT_GT(said->box.y1 - said->box.y0, 3 * line);  // two lines, twice as high
}

TEST_F(RanksTest, WhatIsSaidOfACollectiveLeavesTheChangeReadable) {
  harness_.Resize(1600, 600);  // the slow rank's lanes are out of sight: it is said at the edge
  ASSERT_FALSE(snapshot_->markers.empty());
  const int64_t change_ns = snapshot_->markers.front().time_ns;
  const std::vector<analysis::CollectiveRun> runs = analysis::Collectives(*snapshot_, 10, 10);
  const auto run = std::find_if(runs.begin(), runs.end(), [&](const auto& one) {
    return one.rank == 2 && one.last_rank == kSlowRank && one.last_arrival_ns > change_ns;
  });
  ASSERT_NE(run, runs.end());
  const int64_t since_ns = run->last_arrival_ns - change_ns;
  harness_.shell().Post(ui::SelectOp{run->op_run, 2, false});
  harness_.shell().Post(
      ui::SetView{change_ns - since_ns / 5, run->last_arrival_ns + 5 * since_ns, false, false});
  harness_.Frames(6);
  const ui::DrawnItem* said = harness_.log().Find("timeline", "came_last");
  const ui::DrawnItem* change = harness_.log().Find("timeline", "change:10");
  ASSERT_TRUE(said != nullptr && change != nullptr);
  EXPECT_LT(said->box.x0, change->box.x1);
  EXPECT_LT(change->box.x0, said->box.x1);
  EXPECT_LE(said->box.y1, change->box.y0);  // over it, and close
  EXPECT_LT(change->box.y0 - said->box.y1, 8);
}

}  // namespace
}  // namespace shardscope::ui_test
