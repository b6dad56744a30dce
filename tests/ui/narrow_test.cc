// Small windows and large text: what can be used lies in its panel and beside other things, or the
// panel scrolls to it.
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/snapshot_test_util.h"
#include "ui/text.h"

namespace shardscope::ui_test {
namespace {

struct NarrowCase {
  int width;
  int height;
  float scale;
  ui::Language language;
};
constexpr NarrowCase kNarrowCases[] = {{1100, 700, 1, ui::Language::kEnglish},
                                       {1100, 700, 1, ui::Language::kChinese},
                                       {1100, 700, 1.46F, ui::Language::kEnglish},
                                       {1600, 900, 2, ui::Language::kEnglish},
                                       {1600, 900, 2, ui::Language::kChinese}};

bool Overlap(const ui::Box& a, const ui::Box& b) {
  return a.x0 + 1 < b.x1 && b.x0 + 1 < a.x1 && a.y0 + 1 < b.y1 && b.y0 + 1 < a.y1;
}

bool IsIn(const ui::Box& inner, const ui::Box& outer) {
  return inner.x0 >= outer.x0 - 1 && inner.x1 <= outer.x1 + 1 && inner.y0 >= outer.y0 - 1 &&
         inner.y1 <= outer.y1 + 1;
}

class NarrowTest : public testing::Test {
 protected:
  NarrowTest() : harness_({}, {}, true) {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
    harness_.Frames(8);
  }

  void Show(const NarrowCase& narrow, const char* panel) {
    harness_.Resize(narrow.width, narrow.height);
    harness_.shell().Post(ui::SetScale{narrow.scale});
    harness_.shell().Post(ui::SetLanguage{narrow.language});
    harness_.shell().Post(ui::FocusPanel{panel});
    harness_.Frames(12);
  }
  static const ImGuiWindow& Window(const char* panel) {
    return *ImGui::FindWindowByName((std::string("###") + panel).c_str());
  }
  const ui::DrawnItem* Drawn(const char* panel, const std::string& id) const {
    return harness_.log().Find(panel, id);
  }
  // Whose ids begin with one of `kinds`.
  std::vector<ui::DrawnItem> Items(const char* panel, const std::vector<std::string>& kinds) const {
    std::vector<ui::DrawnItem> items;
    for (const ui::DrawnItem& item : harness_.log().items()) {
      const bool is_wanted = std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
        return item.id.starts_with(kind);
      });
      if (item.panel == panel && is_wanted) items.push_back(item);
    }
    return items;
  }
  void ExpectApartAndInside(const char* panel, const std::vector<ui::DrawnItem>& controls) const {
    ExpectApartAndInside(Window(panel), controls);
  }
  void ExpectApartAndInside(const ImGuiWindow& window,
                            const std::vector<ui::DrawnItem>& controls) const {
    for (size_t at = 0; at < controls.size(); ++at) {
      const ui::Box& box = controls[at].box;
      EXPECT_GE(box.x0, window.Pos.x) << controls[at].id;
      EXPECT_LE(box.x1, window.Pos.x + window.Size.x) << controls[at].id;
      EXPECT_LE(box.y1, window.Pos.y + window.Size.y + window.ScrollMax.y) << controls[at].id;
      for (size_t other = 0; other < at; ++other) {
        EXPECT_FALSE(Overlap(box, controls[other].box))
            << controls[at].id << " on " << controls[other].id;
      }
    }
  }

  Harness harness_;
};

// Its device waits for the host most of the time: no stall says so.
query::SnapshotPtr RunThatWaitsForTheHost() {
  analysis::TestSnapshot test(2);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp", {gather});
  constexpr int64_t kMs = 1'000'000;
  for (int32_t step = 0; step < 8; ++step) {
    const int64_t start_ns = step * 40 * kMs;
    for (int32_t rank = 0; rank < 2; ++rank) {
      test.Run(rank, step, gather, start_ns, start_ns + kMs);
      test.Run(rank, step, forward, start_ns + kMs, start_ns + 10 * kMs);
      test.Step(rank, step, start_ns, start_ns + 40 * kMs);
    }
  }
  return test.Build();
}

TEST_F(NarrowTest, TheNoteBesideStallsIsWrapped) {
  harness_.shell().OpenSnapshot(RunThatWaitsForTheHost());
  harness_.Frames(8);
  for (const NarrowCase& narrow : kNarrowCases) {
    SCOPED_TRACE(narrow.scale);
    Show(narrow, "overlap");
    const ui::DrawnItem* note = Drawn("overlap", "stall_note");
    ASSERT_NE(note, nullptr);
    const ImGuiWindow& window = Window("overlap");
    EXPECT_LE(note->box.x1, window.InnerRect.Max.x);
    if (narrow.scale == 2 && narrow.language == ui::Language::kEnglish) {
      EXPECT_GT(note->box.y1 - note->box.y0, 20 * narrow.scale);  // lines are 15 high
    }
    const auto stalls = Items("overlap", {"stall:"});
    for (const ui::DrawnItem& stall : stalls) EXPECT_FALSE(Overlap(note->box, stall.box));
  }
}

TEST_F(NarrowTest, TheScopeOfStallsIsNotOnTheirUnit) {
  for (const NarrowCase& narrow : kNarrowCases) {
    SCOPED_TRACE(narrow.scale);
    Show(narrow, "overlap");
    const std::string_view unit = ui::Tr(narrow.language, ui::Text::kOverlapMsPerStep);
    const auto texts = Items("overlap", {"text"});
    const auto said = std::find_if(texts.begin(), texts.end(),
                                   [&](const ui::DrawnItem& text) { return text.text == unit; });
    const ui::DrawnItem* scope = Drawn("overlap", "scope");
    ASSERT_TRUE(said != texts.end() && scope != nullptr);
    EXPECT_FALSE(Overlap(said->box, scope->box));
    EXPECT_LE(scope->box.x1, Window("overlap").InnerRect.Max.x);
    for (const ui::DrawnItem& stall : Items("overlap", {"stall:"})) {
      EXPECT_FALSE(Overlap(stall.box, scope->box));
    }
  }
}

TEST_F(NarrowTest, WhatComparesIsInItsPanel) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "compare");
    const auto controls = Items("compare", {"field:", "button:"});
    EXPECT_EQ(controls.size(), 3U + 1);
    ExpectApartAndInside("compare", controls);
  }
}

TEST_F(NarrowTest, AStatementIsUnderTheTablesWhereThereIsNoRoomBesideThem) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "sql");
    const auto controls = Items("sql", {"field:", "button:"});
    EXPECT_EQ(controls.size(), 1U + 1);
    ExpectApartAndInside("sql", controls);
    for (const ui::DrawnItem& control : controls) {
      EXPECT_GE(control.box.x1 - control.box.x0, 60 * narrow.scale) << control.id;
    }
  }
}

TEST_F(NarrowTest, FieldsOfANewRunAreInTheirPanel) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "runs");
    const float right = Window("runs").InnerRect.Max.x;
    const auto controls = Items("runs", {"field:", "choice:"});
    EXPECT_GE(controls.size(), 4U);
    for (const ui::DrawnItem& control : controls) {
      EXPECT_LE(control.box.x1, right) << control.id;
      EXPECT_GE(control.box.x1 - control.box.x0, 60 * narrow.scale) << control.id;
    }
  }
}

TEST_F(NarrowTest, ChoicesOfRanksAreInTheirPanelAndItsRowsHaveTheirHeight) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "ranks");
    const auto controls = Items("ranks", {"segment:", "field:", "button:"});
    EXPECT_GE(controls.size(), 9U);
    ExpectApartAndInside("ranks", controls);
    const ImGuiWindow& window = Window("ranks");
    ImGui::SetScrollY(ImGui::FindWindowByName("###ranks"), window.ScrollMax.y);
    harness_.Frames(3);
    for (const char* id : {"row:0", "row:3"}) {
      const ui::DrawnItem* row = Drawn("ranks", id);
      ASSERT_NE(row, nullptr) << id << " at scale " << narrow.scale;
      EXPECT_GE(row->box.y1 - row->box.y0, 17 * narrow.scale);
      EXPECT_LE(row->box.y1, window.Pos.y + window.Size.y);
    }
    const ui::DrawnItem* sign = Drawn("ranks", "legend:slow");
    ASSERT_NE(sign, nullptr);
    EXPECT_LE(sign->box.x1, window.Pos.x + window.Size.x);
    EXPECT_FALSE(Overlap(sign->box, Drawn("ranks", "legend:high")->box));
  }
}

TEST_F(NarrowTest, MarksOfChangesAreNotOnTheNumbersOfSteps) {
  Show(kNarrowCases[0], "ranks");
  const ui::DrawnItem* change = Drawn("ranks", "change:12");
  ASSERT_NE(change, nullptr);
  const auto steps = Items("ranks", {"step:"});
  EXPECT_GT(steps.size(), 2U);
  for (const ui::DrawnItem& step : steps) EXPECT_FALSE(Overlap(step.box, change->box)) << step.id;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "ranks", "values_of"));
    test->Yield(3);
    ASSERT_NE(Drawn("ranks", "tooltip"), nullptr);
    EXPECT_EQ(Drawn("ranks", "tooltip")->text, "Lateness\nof 22 steps");
  }));
  EXPECT_GT(Drawn("ranks", "values_of")->box.x0, Drawn("ranks", "step:0")->box.x1);
}

TEST_F(NarrowTest, ChoicesAndNoteOfCollectivesStandApart) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "collectives");
    const auto controls = Items("collectives", {"segment:", "emulated"});
    EXPECT_EQ(controls.size(), 5U + 2 + 1);
    ExpectApartAndInside("collectives", controls);
    const ui::DrawnItem* points = Drawn("collectives", "points");
    ASSERT_NE(points, nullptr);
    EXPECT_GT(points->box.y1 - points->box.y0, 20 * narrow.scale);
  }
}

TEST_F(NarrowTest, LabelsOfKnobsAreNotUnderTheirFields) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "timeline");
    const auto controls = Items("run_control", {"segment:", "field:"});
    EXPECT_GT(controls.size(), 6U);
    ImGuiWindow* knobs = PartOf("run_control", "knobs");
    ASSERT_NE(knobs, nullptr);
    ExpectApartAndInside(*knobs, controls);
    // Page by page: below lies what stands under the knobs.
    const float page = knobs->InnerRect.GetHeight() / 2;
    for (float at = 0; at < knobs->ScrollMax.y + page; at += page) {
      ImGui::SetScrollY(knobs, std::min(at, knobs->ScrollMax.y));
      harness_.Frames(3);
      for (const ui::DrawnItem& text : Items("run_control", {"text"})) {
        for (const ui::DrawnItem& control : Items("run_control", {"segment:", "field:"})) {
          const ImRect& seen = knobs->InnerRect;
          if (control.box.y0 < seen.Min.y || control.box.y1 > seen.Max.y) continue;
          EXPECT_TRUE(IsIn(text.box, control.box) || !Overlap(text.box, control.box))
              << text.text << " on " << control.id << " at scale " << narrow.scale;
        }
      }
    }
    ImGui::SetScrollY(knobs, 0);
  }
}

TEST_F(NarrowTest, TextsOfTheCardOfAChangeStandApart) {
  std::vector<NarrowCase> cases(std::begin(kNarrowCases), std::end(kNarrowCases));
  cases.push_back({1920, 1080, 2, ui::Language::kEnglish});
  cases.push_back({2400, 1350, 3, ui::Language::kEnglish});
  cases.push_back({2400, 1350, 3, ui::Language::kChinese});
  for (const NarrowCase& narrow : cases) {
    SCOPED_TRACE(narrow.scale);
    Show(narrow, "run_control");
    const std::vector<ui::DrawnItem> texts = Items("run_control", {"text"});
    const std::vector<ui::DrawnItem> all_values = Items("run_control", {"change."});
    int rows = 0;
    for (const ui::DrawnItem& values : all_values) {
      if (!values.id.ends_with(".before")) continue;
      ++rows;
      EXPECT_LE(values.box.x1, Window("run_control").InnerRect.Max.x) << values.text;
      for (const ui::DrawnItem& text : texts) {
        const bool is_of_row = text.text.ends_with("%") ||
                               text.text == ui::Tr(narrow.language, ui::Text::kMsP50) ||
                               text.text == ui::Tr(narrow.language, ui::Text::kExposed) ||
                               text.text == ui::Tr(narrow.language, ui::Text::kPeak) ||
                               text.text == ui::Tr(narrow.language, ui::Text::kWithinNoise);
        if (!is_of_row) continue;
        EXPECT_FALSE(Overlap(values.box, text.box)) << text.text << " on " << values.text;
      }
    }
    EXPECT_EQ(rows, 3);
  }
}

TEST_F(NarrowTest, TheTabOfAPanelThatIsAskedForIsInSight) {
  for (const char* panel : {"log", "timeline", "schedule"}) {
    Show({1600, 900, 2, ui::Language::kEnglish}, panel);
    const ImGuiWindow& window = Window(panel);
    ASSERT_NE(window.DockNode, nullptr);
    ImGuiTabBar* bar = window.DockNode->TabBar;
    ASSERT_NE(bar, nullptr);
    EXPECT_TRUE(harness_.Until([bar] { return bar->ScrollingAnim == bar->ScrollingTarget; }, 20));
    const ImGuiTabItem* tab = ImGui::TabBarFindTabByID(bar, window.TabId);
    ASSERT_NE(tab, nullptr);
    const float x = bar->BarRect.Min.x + tab->Offset - bar->ScrollingAnim;
    EXPECT_GE(x, bar->BarRect.Min.x - 1) << panel;
    EXPECT_LE(x + tab->Width, bar->BarRect.Max.x + 1) << panel;
    if (std::string_view(panel) == "log") {
      EXPECT_GT(bar->ScrollingTarget, 0);
    }
  }
}

TEST_F(NarrowTest, LinesOverThePlotsOfMemoryBeginBelowItsLegend) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "memory");
    const ui::DrawnItem* lines = Drawn("memory", "lines");
    ASSERT_NE(lines, nullptr);
    for (const ui::DrawnItem& entry : Items("memory", {"legend:", "legend_rest"})) {
      EXPECT_LE(entry.box.y1, lines->box.y0 + 1) << entry.id << " at scale " << narrow.scale;
    }
  }
}

TEST_F(NarrowTest, TheLegendLeavesTheLanesRoomAndSaysHowManyEntriesHaveNone) {
  const auto count = [&](const char* panel) { return Items(panel, {"legend:"}).size(); };
  const size_t all_ops = count("timeline");
  const size_t all_bytes = count("memory");
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "timeline");
    const ImGuiWindow& window = Window("timeline");
    const float bottom = window.Pos.y + window.Size.y;
    float legend_end = 0;
    for (const ui::DrawnItem& entry : Items("timeline", {"legend:"})) {
      legend_end = std::max(legend_end, entry.box.y1);
    }
    EXPECT_LE(legend_end, bottom - 90 * narrow.scale);
    const auto lanes = Items("timeline", {"rank:"});
    ASSERT_FALSE(lanes.empty());
    EXPECT_LT(lanes.front().box.y1, bottom);
    for (const auto& [panel, all] : {std::pair("timeline", all_ops), {"memory", all_bytes}}) {
      const ui::DrawnItem* rest = Drawn(panel, "legend_rest");
      const int64_t left_out = rest == nullptr ? 0 : std::get<int64_t>(rest->value);
      if (count(panel) == 0 && rest == nullptr) continue;  // no room for a line
      EXPECT_EQ(count(panel) + static_cast<size_t>(left_out), all) << panel;
      if (rest == nullptr) continue;
      const ImGuiWindow& own = Window(panel);
      EXPECT_LE(rest->box.x1, own.Pos.x + own.Size.x);
      for (const ui::DrawnItem& entry : Items(panel, {"legend:"})) {
        EXPECT_FALSE(Overlap(rest->box, entry.box)) << panel << " " << entry.id;
      }
    }
  }
}

TEST_F(NarrowTest, StepsHaveAChartOrItsTableTheRoom) {
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "steps");
    const ImGuiWindow& window = Window("steps");
    const ui::DrawnItem* header = Drawn("steps", "header:step");
    ASSERT_NE(header, nullptr);
    const bool has_chart = Drawn("steps", "chart") != nullptr;
    EXPECT_EQ(has_chart, header->box.y0 - window.InnerRect.Min.y > 80 * narrow.scale);
    EXPECT_FALSE(Items("steps", {"row:"}).empty());
  }
}

TEST_F(NarrowTest, OfTheVerdictNoWordIsCut) {
  const auto without_spaces = [](std::string text) {
    std::erase(text, ' ');
    return text;
  };
  int most_lines = 0;
  for (const NarrowCase& narrow : kNarrowCases) {
    Show(narrow, "overlap");
    ASSERT_TRUE(harness_.Until([&] { return Drawn("overlap", "verdict") != nullptr; }, 60));
    const ui::DrawnItem verdict = *Drawn("overlap", "verdict");
    std::string drawn;
    int lines = 0;
    for (const ui::DrawnItem& text : Items("overlap", {"text"})) {
      if (!IsIn(text.box, verdict.box)) continue;
      drawn += text.text;
      ++lines;
    }
    EXPECT_EQ(without_spaces(drawn), without_spaces(verdict.text)) << "at scale " << narrow.scale;
    const ImGuiWindow& window = Window("overlap");
    EXPECT_LE(verdict.box.x1, window.Pos.x + window.Size.x);
    most_lines = std::max(most_lines, lines);
  }
  EXPECT_GT(most_lines, 1);
}

TEST_F(NarrowTest, ColumnsAreAsTheyWereWhereTheWindowIsAgain) {
  const auto widths = [&] {
    return std::vector<float>{Window("run_control").Size.x, Window("overlap").Size.x};
  };
  const std::vector<float> before = widths();
  Show(kNarrowCases[0], "timeline");
  EXPECT_NE(widths(), before);
  Show({1600, 900, 1, ui::Language::kEnglish}, "timeline");
  EXPECT_EQ(widths(), before);
  for (const float scale : {1.1F, 1.21F, 1.331F, 2.0F}) {
    Show({1100, 700, scale, ui::Language::kEnglish}, "timeline");
  }
  Show({1600, 900, 1, ui::Language::kEnglish}, "timeline");
  EXPECT_EQ(widths(), before);
}

}  // namespace
}  // namespace shardscope::ui_test
