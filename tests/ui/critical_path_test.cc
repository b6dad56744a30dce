// The critical path over the lanes, by key and by mouse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <variant>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/collectives/hang.h"
#include "trace/analysis/explain/critical_path.h"
#include "ui/timeline/geometry.h"

namespace shardscope::ui_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class CriticalPathTest : public testing::Test {
 protected:
  CriticalPathTest() : snapshot_(analysis::MakeLessonSnapshot(2, 12, 99)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }

  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("timeline", id);
  }
  const ui::CriticalPathState& path() const { return harness_.context().critical_path; }
  void WaitFor(ImGuiTestContext* test, int32_t step) const {
    for (int i = 0; i < 4000 && (path().made == nullptr || path().made->step != step); ++i) {
      test->Yield();
    }
    ASSERT_NE(path().made, nullptr);
    ASSERT_EQ(path().made->step, step);
    test->Yield(2);
  }
  void ShowStep(ImGuiTestContext* test, int32_t step) {
    harness_.shell().Post(ui::ShowStep{step});
    test->SleepNoSkip(0.5F, 1.0F / 60);
  }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(CriticalPathTest, KLightsWhatHoldsTheStepUp) {
  EXPECT_EQ(Drawn("critical_path"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    ShowStep(test, 5);
    test->KeyPress(ImGuiKey_K);
    WaitFor(test, 5);
    EXPECT_THAT(Drawn("critical_path")->text, StartsWith("Step 5: "));
    const analysis::StepPath expected = analysis::PathOfStep(*snapshot_, 5);
    std::set<int32_t> ranks;
    for (const analysis::PathPart& part : expected.parts) ranks.insert(part.rank);
    const std::string list = analysis::RankList({ranks.begin(), ranks.end()});
    EXPECT_THAT(
        Drawn("critical_path")->text,
        EndsWith("from the last rank's start to the last one's end, through the ranks: " + list));
    double compute_ns = 0;
    for (const analysis::PathGroup& group : expected.groups) {
      if (group.kind == analysis::PathKind::kCompute) compute_ns += group.ns_per_step;
    }
    ASSERT_NE(Drawn("path_part:compute"), nullptr);
    EXPECT_EQ(std::get<double>(Drawn("path_part:compute")->value), compute_ns);
    // Each stretch follows the one before.
    size_t drawn = 0;
    float last_x1 = 0;
    for (const ui::DrawnItem& item : harness_.log().items()) {
      if (!item.id.starts_with("path:")) continue;
      ++drawn;
      EXPECT_GE(item.box.x1, last_x1 - 1);
      last_x1 = item.box.x1;
    }
    EXPECT_EQ(drawn, expected.parts.size());

    // Another step has its own, and the first one is kept.
    const auto first = path().made;
    ShowStep(test, 7);
    WaitFor(test, 7);
    EXPECT_THAT(Drawn("critical_path")->text, StartsWith("Step 7: "));
    ShowStep(test, 5);
    WaitFor(test, 5);
    EXPECT_EQ(path().made, first);

    test->KeyPress(ImGuiKey_K);
    test->Yield(3);
    EXPECT_EQ(Drawn("critical_path"), nullptr);
    EXPECT_EQ(Drawn("path_part:compute"), nullptr);
  }));
}

TEST_F(CriticalPathTest, TheMouseSwitchesItAndAsksWhatAKindIs) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    ShowStep(test, 5);
    ASSERT_NE(Drawn("show_critical_path"), nullptr);
    EXPECT_LE(Drawn("show_critical_path")->box.x1,
              Drawn("show_critical_path")->box.x0 + timeline::kGutter);
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "show_critical_path"));
    test->MouseClick();
    WaitFor(test, 5);
    EXPECT_TRUE(path().is_on);
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "path_part:transfer"));
    test->Yield(3);
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "show_critical_path"));
    test->MouseClick();
    test->Yield(3);
    EXPECT_FALSE(path().is_on);
  }));
}

TEST_F(CriticalPathTest, OfAStepThatIsNotInViewItSaysSo) {
  // Rank 1 is not through the last step.
  auto begun = std::make_shared<query::Snapshot>(*snapshot_);
  begun->ranks[1].steps = {};
  for (const query::Step& step : snapshot_->ranks[1].steps) {
    if (step.step < 11) begun->ranks[1].steps.Append(step);
  }
  const query::Step last = snapshot_->ranks[0].steps.back();
  const query::Step before = snapshot_->ranks[0].steps[10];
  ASSERT_EQ(last.step, 11);
  ASSERT_EQ(before.step, 10);
  harness_.shell().OpenSnapshot(begun);
  harness_.Frames(8);
  const int64_t quarter_ns = (last.end_ns - last.start_ns) / 4;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    harness_.shell().Post(ui::SetView{before.start_ns, before.end_ns});
    test->SleepNoSkip(0.5F, 1.0F / 60);
    test->KeyPress(ImGuiKey_K);
    WaitFor(test, 10);
    EXPECT_THAT(Drawn("critical_path")->text, Not(HasSubstr("not in view")));
    harness_.shell().Post(ui::SetView{last.start_ns + quarter_ns, last.end_ns - quarter_ns});
    test->SleepNoSkip(0.5F, 1.0F / 60);
    WaitFor(test, 10);
    EXPECT_THAT(Drawn("critical_path")->text, StartsWith("Step 10: "));
    EXPECT_THAT(Drawn("critical_path")->text, EndsWith(" (this step is not in view)"));
  }));
}

TEST_F(CriticalPathTest, FoldedAndHiddenRanksDoNotBreakIt) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    ShowStep(test, 5);
    test->KeyPress(ImGuiKey_K);
    WaitFor(test, 5);
    test->KeyPress(ImGuiKey_Z);
    test->Yield(4);
    EXPECT_NE(Drawn("critical_path"), nullptr);
    test->KeyPress(ImGuiKey_Z);
    harness_.shell().Post(ui::PlaceRanks{{0}, ui::RankPlace::kHidden});
    test->Yield(4);
    for (const ui::DrawnItem& item : harness_.log().items()) {
      EXPECT_FALSE(item.id.starts_with("path:0:")) << item.id;
    }
  }));
}

TEST_F(CriticalPathTest, BehindTheNewestStepItIsOfThatAndWithoutOneItSaysSo) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_K);
    harness_.shell().Post(ui::ShowStep{11});
    WaitFor(test, 11);
  }));
  auto begun = std::make_shared<query::Snapshot>(*snapshot_);
  begun->ranks[1].steps = {};
  harness_.shell().OpenSnapshot(begun);
  harness_.Frames(6);
  ASSERT_NE(Drawn("critical_path"), nullptr);
  EXPECT_THAT(Drawn("critical_path")->text, HasSubstr("no step is finished by all ranks"));
}

}  // namespace
}  // namespace shardscope::ui_test
