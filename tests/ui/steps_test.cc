// The panel Steps, and tables and pictures that are saved, driven as a user would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/steps/step_table.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

constexpr double kStepsSeconds = 60;  // of the worst machine

class StepsTest : public testing::Test {
 protected:
  void Press(ImGuiKeyChord chord) {
    EXPECT_TRUE(harness_.Drive([chord](ImGuiTestContext* test) { test->KeyPress(chord); }));
    harness_.Frames(8);
  }
  void Click(const std::string& id) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, "steps", id));
      test->MouseClick();
    }));
    harness_.Frames(6);
  }
  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("steps", id);
  }
  // Once the view has come to rest.
  bool ShowsStep(int32_t step) {
    return harness_.Until([&] { return harness_.context().focus.step == step; }, 5);
  }
  double Value(const std::string& id) const { return std::get<double>(Drawn(id)->value); }

  Harness harness_;
};

class LessonStepsTest : public StepsTest {
 protected:
  LessonStepsTest() : snapshot_(analysis::MakeLessonSnapshot(3, 30, 15, 1)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }
  query::SnapshotPtr snapshot_;
};

TEST_F(LessonStepsTest, ShowsEachStepAsTheReportHasIt) {
  EXPECT_EQ(harness_.context().step_table, nullptr);  // behind other tabs nothing is made
  Press(ImGuiKey_T);
  const std::vector<analysis::StepRow> rows =
      analysis::MakeStepTable(analysis::Breakdowns(*snapshot_), snapshot_->markers);
  int shown = 0;
  for (const analysis::StepRow& row : rows) {
    const std::string step = ":" + std::to_string(row.step);
    const ui::DrawnItem* bar = Drawn("bar" + step);
    ASSERT_NE(bar, nullptr);
    EXPECT_EQ(std::get<int64_t>(bar->value), row.step_ns);
    if (Drawn("row" + step) == nullptr) continue;
    ++shown;
    EXPECT_EQ(Value("step_ns" + step), static_cast<double>(row.step_ns));
    EXPECT_EQ(Value("exposed_ns" + step), row.exposed_ns);
    EXPECT_EQ(Value("loss" + step), row.loss);
    EXPECT_EQ(Value("slowest_rank" + step), row.slowest_rank);
    EXPECT_EQ(Drawn("events" + step) != nullptr, !row.events.empty());
  }
  EXPECT_GE(shown, 5);
}

TEST_F(LessonStepsTest, IsSortedByWhatIsClickedAndLeadsToAStep) {
  Press(ImGuiKey_T);
  Click("header:exposed_ns");
  const std::vector<analysis::StepRow>& rows = *harness_.context().step_table;
  const auto most = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.exposed_ns < b.exposed_ns;
  });
  const ui::DrawnItem* row = Drawn("row:" + std::to_string(most->step));
  ASSERT_NE(row, nullptr);
  for (const ui::DrawnItem& item : harness_.log().items()) {
    if (item.panel != "steps" || !item.id.starts_with("row:")) continue;
    EXPECT_LE(row->box.y0, item.box.y0);  // it is the first
  }
  Click("row:" + std::to_string(most->step));
  EXPECT_TRUE(ShowsStep(most->step));
  EXPECT_NE(harness_.log().Find("timeline", "rank:0"), nullptr);
}

// The columns of large text scroll to the side.
TEST_F(LessonStepsTest, NumbersOfLargeTextAreNotCut) {
  for (const float scale : {1.0F, 1.5F, 2.0F}) {
    harness_.shell().Post(ui::SetScale{scale});
    if (Drawn("header:step") == nullptr) Press(ImGuiKey_T);
    harness_.Frames(8);
    for (const char* column : {"header:", "step_ns:", "slowest_rank:", "compute_ns:", "exposed_ns:",
                               "idle_ns:", "tokens_per_second:", "loss:", "grad_norm:"}) {
      EXPECT_TRUE(HaveRoom(harness_, "steps", column)) << column << " at scale " << scale;
    }
  }
}

TEST_F(LessonStepsTest, AClickIntoTheChartLeadsToAStep) {
  Press(ImGuiKey_T);
  Click("bar:20");
  EXPECT_TRUE(ShowsStep(20));
}

// The list is where the timeline is, also where it was opened after.
TEST_F(LessonStepsTest, TheStepInViewIsMarkedAndInSight) {
  for (const int32_t step : {9, 2, 28, 3}) {
    harness_.shell().Post(ui::ShowStep{step});
    ASSERT_TRUE(ShowsStep(step));
    if (Drawn("header:step") == nullptr) Press(ImGuiKey_T);
    harness_.Frames(8);
    const ui::DrawnItem* mark = Drawn("in_view");
    ASSERT_NE(mark, nullptr);
    EXPECT_EQ(std::get<int64_t>(mark->value), step);
    const ui::DrawnItem* bar = Drawn("bar:" + std::to_string(step));
    ASSERT_NE(bar, nullptr);
    EXPECT_LE(std::abs(mark->box.x0 - bar->box.x0), 1.0F);
    EXPECT_NE(Drawn("row:" + std::to_string(step)), nullptr) << step;
  }
}

TEST_F(LessonStepsTest, ChineseIsComplete) {
  harness_.shell().Post(ui::SetLanguage{ui::Language::kChinese});
  Press(ImGuiKey_T);
  ASSERT_NE(Drawn("header:exposed_ns"), nullptr);
  EXPECT_EQ(Drawn("header:exposed_ns")->text, "暴露");
  EXPECT_EQ(Drawn("chart")->text, "每步在最慢 rank 上的时间");
}

TEST_F(LessonStepsTest, WithoutARunOfItsOwnNothingIsSaved) {
  Press(ImGuiKey_T);
  Press(ImGuiMod_Ctrl | ImGuiKey_E);
  EXPECT_TRUE(harness_.context().notice.is_error);
  EXPECT_THAT(harness_.context().notice.text, HasSubstr("Open a run first"));
}

// Not of colour alone.
TEST_F(StepsTest, AnIncidentHasACrossAndAChangeHasNone) {
  query::Snapshot run = *analysis::MakeLessonSnapshot(2, 12, 6);
  const query::Step& step = run.ranks[0].steps[8];
  run.markers.push_back({step.start_ns, step.step, "skip", "scaler", "2", "1"});
  harness_.shell().OpenSnapshot(std::make_shared<const query::Snapshot>(run));
  harness_.Frames(8);
  Press(ImGuiKey_T);
  EXPECT_TRUE(harness_.Until([this] { return Drawn("incident:8") != nullptr; }, kStepsSeconds));
  EXPECT_EQ(Drawn("incident:6"), nullptr);
}

// Six steps of two ranks, a knob turned at the third; the first, warm-up, takes longer.
void WriteSteps(const std::string& folder) {
  std::filesystem::create_directories(folder);
  const auto recorder = query::OpenRecorder(folder);
  for (int64_t rank = 0; rank < 2; ++rank) {
    schema::RankRow row;
    row.rank = rank;
    recorder->Add(row);
  }
  for (int64_t step = 0; step < 6; ++step) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      schema::StepRow row;
      row.rank = rank;
      row.step = step;
      row.start_ns = 1000 * step;
      row.end_ns = row.start_ns + 500 + 100 * rank + (step == 0 ? 300 : 0);
      row.tokens = 10;
      row.loss = 3.0 - 0.25 * static_cast<double>(step);
      recorder->Record(row);
    }
  }
  schema::MarkerRow marker;
  marker.time_ns = 3000;
  marker.step = 3;
  marker.kind = "change";
  marker.key = "prefetch.forward";
  marker.old_value = "1";
  marker.new_value = "2";
  recorder->Add(marker);
  SHARDSCOPE_CHECK(recorder->Finish().ok());
}

class SavedTest : public StepsTest {
 protected:
  SavedTest() {
    std::filesystem::remove_all(folder_);
    WriteSteps(folder_);
    SHARDSCOPE_CHECK(harness_.shell().Open(folder_).ok());
    EXPECT_TRUE(
        harness_.Until([this] { return !harness_.context().snapshot->loading; }, kStepsSeconds));
    harness_.Frames(4);
  }
  ~SavedTest() override { std::filesystem::remove_all(folder_); }

  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool Says(const std::string& text) {
    return harness_.Until(
        [&] { return harness_.context().notice.text.find(text) != std::string::npos; },
        kStepsSeconds);
  }

  const std::string folder_ =
      std::filesystem::weakly_canonical(testing::TempDir()).string() + "/saved_test";
};

TEST_F(SavedTest, TheTableInFrontIsSavedAsCsvBesideTheRun) {
  Press(ImGuiKey_T);
  EXPECT_TRUE(harness_.Until([this] { return Drawn("row:5") != nullptr; }, kStepsSeconds));
  Press(ImGuiMod_Ctrl | ImGuiKey_E);
  const std::string path = folder_ + "/exports/steps-1.csv";
  ASSERT_TRUE(Says(path)) << harness_.context().notice.text;
  const std::string csv = Content(path);
  EXPECT_THAT(csv, testing::StartsWith("step,step_ns,slowest_rank,"));
  EXPECT_THAT(csv, HasSubstr("\r\n3,600,1,"));
  EXPECT_THAT(csv, HasSubstr(",2.25,"));
  EXPECT_THAT(csv, HasSubstr("prefetch.forward 1 → 2\r\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  Press(ImGuiMod_Ctrl | ImGuiKey_E);
  EXPECT_TRUE(Says("steps-2.csv"));
  EXPECT_EQ(Content(folder_ + "/exports/steps-2.csv"), csv);
}

TEST_F(SavedTest, ABarThatIsLongerThanTheChartIsMarked) {
  Press(ImGuiKey_T);
  EXPECT_TRUE(harness_.Until([this] { return Drawn("bar:5") != nullptr; }, kStepsSeconds));
  ASSERT_NE(Drawn("cut:0"), nullptr);
  EXPECT_EQ(std::get<int64_t>(Drawn("cut:0")->value), 900);
  EXPECT_GE(Drawn("cut:0")->box.y0, Drawn("bar:0")->box.y0);
  EXPECT_LE(Drawn("cut:0")->box.y1, Drawn("bar:0")->box.y1);
  EXPECT_EQ(Drawn("cut:3"), nullptr);
}

TEST_F(SavedTest, WhatIsInFrontAndHasNoTableSaysWhichHave) {
  Press(ImGuiMod_Ctrl | ImGuiKey_1);
  Press(ImGuiMod_Ctrl | ImGuiKey_E);
  EXPECT_THAT(
      harness_.context().notice.text,
      HasSubstr(
          "SQL, Steps, Ranks, Collectives, Schedule, Compare, Bookmarks, Overlap, Details, "));
  EXPECT_TRUE(harness_.context().notice.is_error);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/exports"));
}

TEST_F(SavedTest, APictureIsAskedForOnce) {
  Press(ImGuiMod_Ctrl | ImGuiKey_S);
  EXPECT_EQ(harness_.shell().TakeAskedPicture(), ui::PictureKind::kPng);
  EXPECT_EQ(harness_.shell().TakeAskedPicture(), ui::PictureKind::kNone);
  Press(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_S);
  EXPECT_EQ(harness_.shell().TakeAskedPicture(), ui::PictureKind::kSvg);
  harness_.shell().KeepPicture(ui::PictureKind::kSvg, [] { return Result<std::string>("<svg/>"); });
  ASSERT_TRUE(Says("shardscope-1.svg"));
  EXPECT_EQ(Content(folder_ + "/exports/shardscope-1.svg"), "<svg/>");
}

TEST_F(SavedTest, WhatCannotBeWrittenIsSaid) {
  std::ofstream(folder_ + "/exports") << "in the way";
  Press(ImGuiKey_T);
  EXPECT_TRUE(harness_.Until([this] { return Drawn("row:5") != nullptr; }, kStepsSeconds));
  Press(ImGuiMod_Ctrl | ImGuiKey_E);
  ASSERT_TRUE(Says("Not saved: cannot make the folder"));
  EXPECT_TRUE(harness_.context().notice.is_error);
}

}  // namespace
}  // namespace shardscope::ui_test
