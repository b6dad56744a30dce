// The cards of what would help: they say what the report says, and lead to the evidence.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/report/report.h"
#include "ui/advice.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class AdvicePanelTest : public testing::Test {
 protected:
  AdvicePanelTest() : snapshot_(analysis::MakeLessonSnapshot(2, 12, 99)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }

  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("advice", id);
  }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(AdvicePanelTest, ACardHasWhatTheReportHas) {
  EXPECT_EQ(Drawn("title:0"), nullptr);  // it stands behind Overlap
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_9);
    test->Yield(6);
  }));
  const analysis::Report report = analysis::MakeReport(*snapshot_);
  const auto& advice = report.figures.explanation.advice;
  ASSERT_FALSE(advice.empty());
  for (size_t at = 0; at < advice.size(); ++at) {
    ASSERT_NE(Drawn(fmt::format("title:{}", at)), nullptr);
    EXPECT_EQ(Drawn(fmt::format("title:{}", at))->text, advice[at].title);
    EXPECT_EQ(Drawn(fmt::format("remedy:{}", at))->text, advice[at].remedy);
    EXPECT_EQ(std::get<double>(Drawn(fmt::format("saving:{}", at))->value),
              advice[at].saving_ns_per_step);
    const ui::DrawnItem* place = Drawn(fmt::format("place:{}:0", at));
    if (place == nullptr) continue;
    EXPECT_THAT(advice[at].evidence, HasSubstr(place->text));
  }
  EXPECT_EQ(Drawn(fmt::format("title:{}", advice.size())), nullptr);
}

TEST_F(AdvicePanelTest, TheVerdictOpensItAndEvidenceLeadsToTheTimeline) {
  const auto& advice = harness_.context().figures->explanation.advice;
  ASSERT_FALSE(advice.empty());
  const auto places =
      ui::PlacesOf(ui::Language::kEnglish, harness_.context().figures->explanation, advice.front());
  ASSERT_GE(places.size(), 2u);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "overlap", "verdict"));
    test->MouseClick();
    test->Yield(6);
    ASSERT_NE(Drawn("place:0:0"), nullptr);
    test->MouseMoveToPos(PlaceOf(harness_, "advice", "place:0:0"));
    test->MouseClick();
    test->SleepNoSkip(0.5F, 1.0F / 60);
    const auto* shown = std::get_if<ui::ShowOp>(&places[0].jump.back());
    ASSERT_NE(shown, nullptr);
    EXPECT_EQ(harness_.context().selection.op_run, shown->op_run);
    EXPECT_EQ(harness_.context().selection.rank, shown->rank);
  }));
}

TEST_F(AdvicePanelTest, OfARunThatHasEndedTheKnobIsForANewOne) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_9);
    test->Yield(6);
    ASSERT_NE(Drawn("knob:prefetch.forward"), nullptr);
    EXPECT_THAT(Drawn("knob:prefetch.forward")->text, HasSubstr("in a new run"));
    EXPECT_EQ(Drawn("undo"), nullptr);
    test->MouseMoveToPos(PlaceOf(harness_, "advice", "verdict"));
    test->MouseWheelY(-20);  // it may be in a card below
    test->Yield(10);
    test->MouseMoveToPos(PlaceOf(harness_, "advice", "knob:prefetch.forward"));
    test->MouseClick();
    test->Yield(4);
    EXPECT_EQ(harness_.context().shown_key.key, "prefetch.forward");
    EXPECT_TRUE(harness_.context().shown_key.in_form);
  }));
}

TEST_F(AdvicePanelTest, WithoutARunItSaysWhatToDo) {
  harness_.shell().Post(ui::FocusPanel{"advice"});
  harness_.Frames(6);
  harness_.shell().Post(ui::CloseRun{});
  harness_.Frames(4);
  ASSERT_NE(Drawn("empty"), nullptr);
  EXPECT_THAT(Drawn("empty")->text, HasSubstr("once a run is open"));
}

}  // namespace
}  // namespace shardscope::ui_test
