// The panel Schedule over the lesson's run: as a grid, as text that is changed and checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "ui/schedule_sheet.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr double kScheduleSeconds = 60;  // of the worst machine

class ScheduleTest : public testing::Test {
 protected:
  ScheduleTest() : snapshot_(analysis::MakeLessonSnapshot(2, 20, 10)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
    EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_L); }));
    EXPECT_TRUE(Shown("valid"));
  }

  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("schedule", id);
  }
  bool Shown(const std::string& id) {
    return harness_.Until([&] { return Drawn(id) != nullptr; }, kScheduleSeconds);
  }
  void Click(const std::string& id) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness_, "schedule", id));
      test->MouseClick();
    }));
    harness_.Frames(6);
  }
  const ui::ScheduleSheet& sheet() const { return *harness_.context().schedule.sheet; }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(ScheduleTest, EachOpOfTheGridIsThatOfTheSchedule) {
  const plan::Program& program = sheet().schedule.programs[0];
  int shown = 0;
  for (size_t op = 0; op < program.ops.size(); ++op) {
    const ui::DrawnItem* row = Drawn("op:" + std::to_string(op));
    if (row == nullptr) continue;
    ++shown;
    EXPECT_EQ(row->text, OpName(sheet().schedule, program.ops[op]));
  }
  EXPECT_GE(shown, 8);
  EXPECT_THAT(Drawn("valid")->text, StartsWith("Valid: "));
}

TEST_F(ScheduleTest, AClickSaysWhatAnOpWaitsForAndShowsItInTheTimeline) {
  const auto& before = sheet().links[0].before;
  size_t op = 1;
  while (op < before.size() &&
         (before[op].empty() || Drawn("op:" + std::to_string(op)) == nullptr)) {
    ++op;
  }
  ASSERT_LT(op, before.size());
  Click("op:" + std::to_string(op));
  ASSERT_TRUE(Shown("selected"));
  EXPECT_THAT(Drawn("selected")->text, StartsWith(std::to_string(op) + "  "));
  ASSERT_NE(Drawn("before"), nullptr);
  EXPECT_THAT(Drawn("before")->text, HasSubstr(std::to_string(before[op].front())));
  const query::RankRows& rows = snapshot_->ranks.front();
  const auto run = std::find_if(rows.op_runs.begin(), rows.op_runs.end(), [&](const auto& one) {
    return one.id == harness_.context().selection.op_run;
  });
  ASSERT_NE(run, rows.op_runs.end());
  const query::PlanOp* plan_op = snapshot_->FindPlanOp(run->plan_op);
  ASSERT_NE(plan_op, nullptr);
  EXPECT_EQ(plan_op->op, static_cast<int32_t>(op));
  Click("show");
  EXPECT_NE(harness_.log().Find("timeline", "rank:0"), nullptr);
  EXPECT_EQ(harness_.context().selection.op_run, run->id);
}

TEST_F(ScheduleTest, IsReadAgainWhenTheRunIsOpenedAgain) {
  Click("op:3");
  harness_.shell().OpenSnapshot(snapshot_);
  harness_.Frames(2);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_L); }));
  harness_.Frames(6);
  EXPECT_TRUE(Shown("valid"));
  EXPECT_TRUE(Shown("op:3"));
  EXPECT_EQ(Drawn("selected"), nullptr);
}

TEST_F(ScheduleTest, AChangedTextIsCheckedAndCanBeTakenBack) {
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Home);
    test->KeyChars("nonsense ");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
  }));
  ASSERT_TRUE(Shown("refused"));
  EXPECT_THAT(Drawn("refused")->text, HasSubstr("line 1"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("revert");
  }));
  EXPECT_TRUE(Shown("valid"));
}

}  // namespace
}  // namespace shardscope::ui_test
