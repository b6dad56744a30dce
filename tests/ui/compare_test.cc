// The panel Compare: a second run is opened beside the first, sorted, clicked, and what is wrong is
// said.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/compare/comparison.h"
#include "trace/analysis/compare/sentence.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "ui/beside_step.h"
#include "ui/values.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

constexpr double kCompareSeconds = 60;  // of the worst machine
constexpr int64_t kCompareMs = 1'000'000;

// Six steps of a forward of 4 ms, and with `optimizer` one of 2 ms, `gap_ns` behind it.
void WriteRun(const std::string& folder, bool optimizer, int64_t gap_ns = 0) {
  std::filesystem::create_directories(folder);
  const auto recorder = query::OpenRecorder(folder);
  schema::RankRow rank;
  rank.rank = 0;
  recorder->Add(rank);
  schema::TrackRow track;
  track.rank = 0;
  track.name = track.role = "compute";
  const auto track_id = recorder->Add(track);
  const auto forward = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  const auto adam = query::AddPlanOp(recorder.get(), "OPT block0", "optimizer", "compute");
  const int64_t apart_ns = std::max(10 * kCompareMs, 8 * kCompareMs + gap_ns);
  for (int64_t step = 0; step < 8; ++step) {
    const int64_t start_ns = 100 * kCompareMs + step * apart_ns;
    const auto add = [&](query::PlanOpId op, int64_t from_ns, int64_t to_ns) {
      record::OpRecord run = query::OpAt(op, 0, step, start_ns + from_ns, start_ns + to_ns);
      run.run.track = track_id;
      recorder->Record(run);
    };
    add(forward, 0, 4 * kCompareMs);
    if (optimizer) add(adam, 4 * kCompareMs + gap_ns, 6 * kCompareMs + gap_ns);
    schema::StepRow row;
    row.rank = 0;
    row.step = step;
    row.start_ns = start_ns;
    row.end_ns = start_ns + (optimizer ? 7 : 5) * kCompareMs + gap_ns;
    recorder->Record(row);
  }
  SHARDSCOPE_CHECK(recorder->Finish().ok());
}

class CompareTest : public testing::Test {
 protected:
  CompareTest() {
    WriteRun(a_, false);
    WriteRun(b_, true);
    SHARDSCOPE_CHECK(harness_.shell().Open(a_).ok());
    EXPECT_TRUE(
        harness_.Until([this] { return !harness_.context().snapshot->loading; }, kCompareSeconds));
    harness_.Frames(4);
  }

  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("compare", id);
  }
  // The second run, over the form.
  void DropOnPanel() {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, "compare", "how"));
      harness_.shell().Drop(b_);
      test->Yield(2);
    }));
  }
  bool Shown(const std::string& id) {
    return harness_.Until([&] { return Drawn(id) != nullptr; }, kCompareSeconds);
  }
  void Click(const std::string& id) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, "compare", id));
      test->MouseClick();
      test->Yield(4);
    }));
  }
  void Type(const std::string& id, const std::string& text) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, "compare", id));
      test->MouseClick();
      test->KeyCharsReplace(text.c_str());
      test->KeyPress(ImGuiKey_Tab);
      test->Yield(3);
    }));
  }
  // The row of the table that says `what`; -1: none.
  int RowOf(const std::string& what) const {
    for (int at = 0; Drawn(fmt::format("row:{}", at)) != nullptr; ++at) {
      if (Drawn(fmt::format("row:{}", at))->text.find(what) != std::string::npos) return at;
    }
    return -1;
  }

  const query::TestFolder folder_;
  const std::string a_ = folder_.path() + "/a";
  const std::string b_ = folder_.path() + "/b";
  Harness harness_;
};

TEST_F(CompareTest, ARunIsGivenInTheFormAndEveryNumberIsThatOfTheCommand) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_V); }));
  ASSERT_TRUE(Shown("form"));
  EXPECT_THAT(Drawn("how")->text, HasSubstr("drop it here"));
  Type("path", b_);
  Click("go");
  ASSERT_TRUE(Shown("sentence"));
  const auto a = query::ReadSnapshot(a_);
  const auto b = query::ReadSnapshot(b_);
  const analysis::Comparison direct =
      analysis::Compare({a->get(), {}, (*a)->name}, {b->get(), {}, (*b)->name});
  EXPECT_EQ(direct.verdict, analysis::ComparisonVerdict::kWorse);
  EXPECT_EQ(Drawn("sentence")->text, SentenceOf(direct, {ui::FormatDuration, "→"}));
  EXPECT_THAT(direct.sentence, testing::Not(HasSubstr("→")));
  EXPECT_EQ(std::get<double>(Drawn("part_difference:step")->value), direct.step.ns());
  EXPECT_EQ(std::get<double>(Drawn("part_a:compute")->value), direct.parts[0].a_ns);
  EXPECT_EQ(std::get<int64_t>(Drawn("part_low:step")->value), direct.step.shift.low_ns);
  int64_t steps = 0;
  for (size_t bin = 0; bin < direct.histogram.b.size(); ++bin) {
    steps += std::get<int64_t>(Drawn(fmt::format("bin_b:{}", bin))->value);
  }
  EXPECT_EQ(steps, direct.b.num_steps);
  EXPECT_THAT(Drawn("histogram")->text, HasSubstr("share"));
  for (size_t at = 0; at < direct.rows.size(); ++at) {
    const int row = static_cast<int>(at);
    ASSERT_NE(Drawn(fmt::format("row:{}", row)), nullptr);
    const std::string name = Drawn(fmt::format("row:{}", row))->text;
    EXPECT_EQ(std::get<double>(Drawn("difference:" + name)->value), direct.rows[at].on_path.ns());
  }
}

TEST_F(CompareTest, ItsKeyPutsTheKeyboardIntoTheField) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_V);
    test->Yield(8);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    test->KeyChars(b_.c_str());
    test->KeyPress(ImGuiKey_Enter);
  }));
  EXPECT_TRUE(Shown("sentence"));
}

TEST_F(CompareTest, AWrongFieldKeepsTheKeyboardAfterEnter) {
  harness_.shell().Post(ui::FocusPanel{"compare"});
  ASSERT_TRUE(Shown("steps_a"));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "compare", "steps_a"));
    test->MouseClick();
    test->KeyCharsReplace("2-5");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(8);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
  }));
  EXPECT_NE(Drawn("form_error"), nullptr);
}

TEST_F(CompareTest, ARecentRunIsClickedWhereItsPathStands) {
  SHARDSCOPE_CHECK(harness_.shell().Open(b_).ok());
  SHARDSCOPE_CHECK(harness_.shell().Open(a_).ok());
  harness_.shell().Post(ui::FocusPanel{"compare"});
  const std::string id = "run:" + std::filesystem::weakly_canonical(b_).string();
  ASSERT_TRUE(Shown(id));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ui::Box row = Drawn(id)->box;
    test->MouseMoveToPos({row.x0 + 100, (row.y0 + row.y1) / 2});  // behind its name, which is "b"
    test->MouseClick();
  }));
  EXPECT_TRUE(Shown("sentence"));
}

TEST_F(CompareTest, RowsAreSortedAndAClickLeadsToTheOpOfA) {
  harness_.shell().Post(ui::AskBlocks{});
  EXPECT_TRUE(harness_.Until([&] { return harness_.log().Find("details", "title") == nullptr; },
                             kCompareSeconds));
  harness_.shell().Post(ui::CompareWith{b_, {}, {}});
  ASSERT_TRUE(Shown("sentence"));
  const int added = RowOf("compute|optimizer");
  ASSERT_GE(added, 0);
  EXPECT_EQ(Drawn("state:" + Drawn(fmt::format("row:{}", added))->text)->text, "new");
  Click(fmt::format("row:{}", added));
  ASSERT_TRUE(Shown("said"));
  EXPECT_THAT(Drawn("said")->text, HasSubstr("only in B"));
  EXPECT_TRUE(harness_.context().snapshot != nullptr);
  Click("header:a");  // numbers begin with the largest
  const int forward = RowOf("compute|forward");
  EXPECT_EQ(forward, 0);
  Click("header:a");
  EXPECT_GT(RowOf("compute|forward"), 0);
  Click(fmt::format("row:{}", RowOf("compute|forward")));
  harness_.Frames(8);
  const ui::Selection& selection = harness_.context().selection;
  ASSERT_FALSE(selection.op_run.is_none());
  EXPECT_NE(harness_.log().Find("timeline", fmt::format("op_run:0:{}", selection.op_run.value())),
            nullptr);
  EXPECT_NE(harness_.log().Find("details", "title"), nullptr);  // in front of Blocks
}

TEST_F(CompareTest, ARowOfIdleTimeLeadsToTheGap) {
  const std::string gaps = folder_.path() + "/gaps";
  WriteRun(gaps, true, 2 * kCompareMs);
  SHARDSCOPE_CHECK(harness_.shell().Open(gaps).ok());
  EXPECT_TRUE(
      harness_.Until([this] { return !harness_.context().snapshot->loading; }, kCompareSeconds));
  harness_.shell().Post(ui::CompareWith{b_, {}, {}});
  ASSERT_TRUE(Shown("sentence"));
  const int idle = RowOf("idle|optimizer");
  ASSERT_GE(idle, 0);
  Click(fmt::format("row:{}", idle));
  // From 4 to 6 ms of a step, with a margin.
  EXPECT_TRUE(harness_.Until(
      [&] {
        const ui::View& view = harness_.context().view;
        const int64_t in_step_ns = (view.start_ns - 100 * kCompareMs) % (10 * kCompareMs);
        const int64_t length_ns = view.end_ns - view.start_ns;
        return in_step_ns > 3 * kCompareMs && in_step_ns <= 4 * kCompareMs &&
               in_step_ns + length_ns >= 6 * kCompareMs && in_step_ns + length_ns < 7 * kCompareMs;
      },
      10));
  EXPECT_FALSE(harness_.context().selection.op_run.is_none());
}

// Steps of 5 ms beside some of 607 ms.
TEST_F(CompareTest, BinsOfRunsThatAreFarApartAreLogarithmicAndSaySo) {
  const std::string slow = folder_.path() + "/slow";
  WriteRun(slow, true, 600 * kCompareMs);
  harness_.shell().Post(ui::CompareWith{b_, {}, {}});
  ASSERT_TRUE(Shown("sentence"));
  EXPECT_THAT(Drawn("histogram")->text, testing::Not(HasSubstr("logarithmic")));
  EXPECT_EQ(Drawn("histogram_middle"), nullptr);
  harness_.shell().Post(ui::CompareWith{slow, {}, {}});
  ASSERT_TRUE(Shown("histogram_middle"));
  EXPECT_THAT(Drawn("histogram")->text, HasSubstr("logarithmic"));
  const auto middle_ns = std::get<int64_t>(Drawn("histogram_middle")->value);
  EXPECT_GT(middle_ns, 50 * kCompareMs);  // of 5 and 607 it is 55
  EXPECT_LT(middle_ns, 60 * kCompareMs);
}

// Six steps of A are in one bin, three of B in another: each is all of its side.
TEST_F(CompareTest, BinsAreSharesOfTheirSide) {
  const auto steps = [](int32_t first, int32_t last) {
    return analysis::Scope{.kind = analysis::ScopeKind::kSteps, .first = first, .last = last};
  };
  harness_.shell().Post(ui::CompareWith{b_, steps(2, 7), steps(2, 4)});
  ASSERT_TRUE(Shown("bin_b:0"));
  const auto tallest = [this](const char* side) {
    std::pair<float, int64_t> most;  // height, steps
    for (int bin = 0; Drawn(fmt::format("bin_{}:{}", side, bin)) != nullptr; ++bin) {
      const ui::DrawnItem& item = *Drawn(fmt::format("bin_{}:{}", side, bin));
      most = std::max(most, {item.box.y1 - item.box.y0, std::get<int64_t>(item.value)});
    }
    return most;
  };
  const auto [height_a, steps_a] = tallest("a");
  const auto [height_b, steps_b] = tallest("b");
  EXPECT_EQ(steps_a, 6);
  EXPECT_EQ(steps_b, 3);
  EXPECT_GT(height_a, 5);
  EXPECT_NEAR(height_a, height_b, 2);
}

TEST_F(CompareTest, ChineseNamesPhases) {
  harness_.shell().Post(ui::SetLanguage{ui::Language::kChinese});
  harness_.shell().Post(ui::CompareWith{b_, {}, {}});
  ASSERT_TRUE(Shown("sentence"));
  EXPECT_THAT(Drawn("sentence")->text, HasSubstr("优化器"));
  EXPECT_THAT(Drawn("sentence")->text, testing::Not(HasSubstr("optimizer")));
}

// What lies beside the tables stands under them then, and their columns scroll to the side.
TEST_F(CompareTest, NumbersOfLargeTextAreNotCut) {
  harness_.Resize(1600, 1400);
  harness_.shell().Post(ui::CompareWith{b_, {}, {}});
  ASSERT_TRUE(Shown("sentence"));
  for (const float scale : {1.0F, 1.5F, 2.0F}) {
    harness_.shell().Post(ui::SetScale{scale});
    harness_.Frames(6);
    for (const char* column :
         {"a:", "b:", "difference:", "part_a:", "part_b:", "part_difference:", "part_low:"}) {
      EXPECT_TRUE(HaveRoom(harness_, "compare", column)) << column << " at scale " << scale;
    }
  }
}

TEST_F(CompareTest, RangesOfOneRunAreComparedAndMistakesAreNamed) {
  harness_.shell().Post(ui::FocusPanel{"compare"});
  ASSERT_TRUE(Shown("go"));
  Click("go");
  ASSERT_TRUE(Shown("form_error"));
  EXPECT_THAT(Drawn("form_error")->text, HasSubstr("second run"));
  Type("steps_a", "2-5");
  Click("go");
  EXPECT_THAT(Drawn("form_error")->text, HasSubstr("steps of A: 2-5"));
  Type("steps_a", "2:5");
  Type("steps_b", "5:8");
  Click("go");
  ASSERT_TRUE(Shown("sentence"));
  EXPECT_THAT(Drawn("side_a")->text, HasSubstr("2 to 4"));
  EXPECT_THAT(Drawn("side_b")->text, HasSubstr("5 to 7"));
  Click("other");
  ASSERT_TRUE(Shown("form"));
  Type("steps_b", "90:99");
  Click("go");
  ASSERT_TRUE(Shown("error"));
  EXPECT_THAT(Drawn("error")->text, HasSubstr("B: "));
}

TEST_F(CompareTest, ARunThatIsGoneIsAnErrorAndIsTriedAgain) {
  const std::string gone = folder_.path() + "/gone";
  harness_.shell().Post(ui::CompareWith{gone, {}, {}});
  ASSERT_TRUE(Shown("error"));
  EXPECT_THAT(Drawn("error")->text, HasSubstr(gone));
  std::filesystem::rename(b_, gone);
  Click("again");
  EXPECT_TRUE(Shown("sentence"));
}

TEST_F(CompareTest, WhatIsDroppedOnThePanelIsComparedElsewhereOpened) {
  harness_.shell().Post(ui::FocusPanel{"compare"});
  ASSERT_TRUE(Shown("form"));
  DropOnPanel();
  EXPECT_TRUE(Shown("sentence"));
  EXPECT_EQ(harness_.context().path, std::filesystem::weakly_canonical(a_).string());
  Click("other");  // also while another one is chosen
  ASSERT_TRUE(Shown("form"));
  DropOnPanel();
  EXPECT_TRUE(Shown("sentence"));
  harness_.shell().Post(ui::OpenRun{folder_.path() + "/none"});  // nothing comes in its place
  harness_.Frames(4);
  EXPECT_TRUE(harness_.context().compare.asked.has_value());
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "top_bar", "state"));
    harness_.shell().Drop(b_);
    test->Yield(4);
  }));
  EXPECT_EQ(harness_.context().path, std::filesystem::weakly_canonical(b_).string());
  EXPECT_FALSE(harness_.context().compare.asked.has_value());
}

// Shift+V draws B's step under the lanes; the plan and B take turns.
TEST_F(CompareTest, StepsOfBStandUnderTheLanesOfA) {
  const auto timeline = [&](const char* id) { return harness_.log().Find("timeline", id); };
  const auto press = [&](ImGuiKeyChord chord) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) { test->KeyPress(chord); }));
    harness_.Frames(4);
  };
  press(ImGuiMod_Shift | ImGuiKey_V);
  ASSERT_NE(timeline("beside"), nullptr);
  EXPECT_THAT(timeline("beside")->text, HasSubstr("No run is compared with yet"));
  harness_.shell().Post(ui::CompareWith{b_, {}, {}});
  ASSERT_TRUE(Shown("sentence"));
  Click("beside");
  ASSERT_TRUE(harness_.Until([&] { return timeline("beside_ops") != nullptr; }, kCompareSeconds));
  ASSERT_NE(harness_.context().compare.beside, nullptr);
  const ui::BesideStep& beside = *harness_.context().compare.beside;
  EXPECT_EQ(beside.step_a, beside.step_b);
  EXPECT_EQ(beside.a_ns, 5 * kCompareMs);
  EXPECT_EQ(beside.b_ns, 7 * kCompareMs);
  EXPECT_EQ(std::get<int64_t>(timeline("beside_ops")->value), 2);  // forward and optimizer
  EXPECT_THAT(timeline("beside")->text, HasSubstr("took 7.00 ms"));
  press(ImGuiKey_X);
  EXPECT_EQ(timeline("beside"), nullptr);
  EXPECT_NE(timeline("plan"), nullptr);
  press(ImGuiMod_Shift | ImGuiKey_V);
  EXPECT_EQ(timeline("plan"), nullptr);
  EXPECT_TRUE(harness_.Until([&] { return timeline("beside_ops") != nullptr; }, kCompareSeconds));
  press(ImGuiMod_Shift | ImGuiKey_V);
  EXPECT_EQ(timeline("beside"), nullptr);
}

}  // namespace
}  // namespace shardscope::ui_test
