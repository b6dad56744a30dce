// The panel Schedule over the lesson's run: as a grid, as text that is changed and checked.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/text.h"
#include "engine/plan/written_schedule.h"
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

TEST_F(ScheduleTest, OneIsFoundAfterARunThatHasNone) {
  auto none = std::make_shared<query::Snapshot>(*snapshot_);
  for (auto& [id, schedule] : none->schedules) schedule.text.clear();
  none->run_folder = "runs/none";
  harness_.shell().OpenSnapshot(none);
  harness_.shell().Post(ui::FocusPanel{"schedule"});
  ASSERT_TRUE(Shown("empty"));
  harness_.shell().OpenSnapshot(snapshot_);
  harness_.shell().Post(ui::FocusPanel{"schedule"});
  EXPECT_TRUE(Shown("valid"));
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

TEST_F(ScheduleTest, ATextThatWasChangedIsThereAgainWhenItsRunIs) {
  const auto open = [this](const query::SnapshotPtr& snapshot) {
    harness_.shell().OpenSnapshot(snapshot);
    harness_.Frames(8);
    harness_.shell().Post(ui::FocusPanel{"schedule"});
    harness_.Frames(8);
  };
  const auto is_of_mine = [this](bool wanted) {
    return harness_.Until(
        [&] {
          const auto& made = harness_.context().schedule.sheet;
          return made != nullptr && made->text == harness_.context().schedule.asked &&
                 made->text->starts_with("# of mine") == wanted;
        },
        kScheduleSeconds);
  };
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Home);
    test->KeyChars("# of mine");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(3);
  }));
  EXPECT_TRUE(is_of_mine(false));  // nothing has checked it
  auto other = std::make_shared<query::Snapshot>(*snapshot_);
  other->run_folder = "runs/other";
  open(other);
  EXPECT_TRUE(is_of_mine(false));
  EXPECT_EQ(Drawn("revert"), nullptr);
  open(snapshot_);
  ASSERT_TRUE(is_of_mine(true));
  // The grid says so, too, and leads back.
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/grid");
    test->ItemClick("revert");
  }));
  EXPECT_TRUE(is_of_mine(false));
  EXPECT_EQ(Drawn("revert"), nullptr);
  open(snapshot_);
  EXPECT_TRUE(is_of_mine(false));
  EXPECT_EQ(Drawn("revert"), nullptr);
}

TEST_F(ScheduleTest, ATextThatWasChangedIsThereHoweverItsFolderIsSpelled) {
  const auto open = [this](const std::string& folder) {
    auto run = std::make_shared<query::Snapshot>(*snapshot_);
    run->run_folder = folder;
    harness_.shell().OpenSnapshot(run);
    harness_.Frames(8);
    harness_.shell().Post(ui::FocusPanel{"schedule"});
    harness_.Frames(8);
  };
  open(".");
  ASSERT_TRUE(Shown("valid"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Home);
    test->KeyChars("# of mine");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(3);
  }));
  open(std::filesystem::current_path().string());
  EXPECT_TRUE(harness_.Until(
      [&] {
        const auto& made = harness_.context().schedule.sheet;
        return made != nullptr && made->text == harness_.context().schedule.asked &&
               made->text->starts_with("# of mine");
      },
      kScheduleSeconds));
}

TEST_F(ScheduleTest, LargeTextLeavesTheGridTheRoomThatNoSelectedOpNeeds) {
  const auto height = []() -> float {
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      const std::string_view name = window->Name;
      if (window->WasActive && name.find("###schedule/selected_") != name.npos)
        return window->Size.y;
    }
    return -1;
  };
  harness_.Resize(2400, 1350);
  harness_.shell().Post(ui::SetScale{2});
  harness_.Frames(12);
  const float before = height();
  ASSERT_GT(before, 0);
  Click("op:1");
  ASSERT_NE(Drawn("selected"), nullptr);
  EXPECT_LT(before, height());
}

TEST_F(ScheduleTest, ATextThatWasChangedIsKeptWhileAnotherScheduleIsShown) {
  const std::vector<ui::ScheduleChoice> choices = ui::ScheduleChoices(*snapshot_);
  ASSERT_EQ(choices.size(), 2u);
  const auto text_of = [&](int choice) -> const std::string& {
    return snapshot_->schedules.at(choices[static_cast<size_t>(choice)].ids.front()).text;
  };
  const int mine = text_of(0) == *sheet().text ? 0 : 1;
  ASSERT_EQ(text_of(mine), *sheet().text);
  const auto choose = [&](int choice) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->SetRef("//###schedule");
      test->ItemClick("##schedule");
      test->ItemClick(fmt::format("//$FOCUSED/$${}/##option", choice).c_str());
      test->Yield(3);
    }));
  };
  const auto is_shown = [&](const std::string& text) {
    return harness_.Until([&] { return sheet().text != nullptr && *sheet().text == text; },
                          kScheduleSeconds);
  };
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Home);
    test->KeyChars("# of mine");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(3);
  }));
  choose(1 - mine);
  EXPECT_TRUE(is_shown(text_of(1 - mine)));
  EXPECT_EQ(Drawn("revert"), nullptr);
  choose(mine);
  EXPECT_TRUE(is_shown("# of mine\n" + text_of(mine)));
  EXPECT_NE(Drawn("revert"), nullptr);
}

// Trained anew, it has the same Schedules.
TEST_F(ScheduleTest, ATextThatWasChangedIsNotThatOfALaterRunInTheFolder) {
  const std::string original = *sheet().text;
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Home);
    test->KeyChars("# of mine");
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(3);
  }));
  const auto open_shows = [&](const query::SnapshotPtr& snapshot, const std::string& text) {
    harness_.shell().OpenSnapshot(snapshot);
    harness_.Frames(8);
    harness_.shell().Post(ui::FocusPanel{"schedule"});
    return harness_.Until(
        [&] {
          const auto& made = harness_.context().schedule.sheet;
          return made != nullptr && *made->text == text;
        },
        kScheduleSeconds);
  };
  auto anew = std::make_shared<query::Snapshot>(*snapshot_);
  anew->meta["run_id"] = "prefetch-lesson-2";
  EXPECT_TRUE(open_shows(anew, original));
  EXPECT_EQ(Drawn("revert"), nullptr);
  EXPECT_TRUE(open_shows(snapshot_, "# of mine\n" + original));
}

// By key and by link: the op goes past its neighbour, stays selected, and comes back.
TEST_F(ScheduleTest, AnOpIsMovedAndTheScheduleCheckedAgain) {
  const plan::Schedule before = sheet().schedule;
  const plan::Program& program = before.programs[0];
  size_t op = 1;
  while (op < program.ops.size() && (program.ops[op].kind != plan::OpKind::kCopyIn ||
                                     Drawn("op:" + std::to_string(op)) == nullptr ||
                                     program.ops[op].phase != plan::Phase::kForward || op < 4)) {
    ++op;
  }
  ASSERT_LT(op, program.ops.size());
  const std::string name = OpName(before, program.ops[op]);
  const auto stands_at = [&](size_t wanted) {
    const std::string title = fmt::format("{}  {}", wanted, name);
    return harness_.Until([&] { return Drawn("selected") && Drawn("selected")->text == title; },
                          kScheduleSeconds);
  };
  Click("op:" + std::to_string(op));
  ASSERT_TRUE(stands_at(op));
  Click("earlier");
  ASSERT_TRUE(stands_at(op - 1));
  plan::Schedule moved = before;
  ASSERT_EQ(plan::IssueEarlier(static_cast<plan::OpIndex>(op), &moved.programs[0]),
            static_cast<plan::OpIndex>(op - 1));
  EXPECT_EQ(sheet().schedule, moved);
  EXPECT_EQ(Drawn("run"), nullptr);  // no run that could train with it
  EXPECT_TRUE(harness_.Drive(
      [](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Alt | ImGuiKey_DownArrow); }));
  ASSERT_TRUE(stands_at(op));
  EXPECT_EQ(sheet().schedule, before);
}

// The focus stays where it is, and of presses that come faster than checks none is lost.
TEST_F(ScheduleTest, KeysMoveAnOpAsOftenAsTheyArePressed) {
  const plan::Schedule before = sheet().schedule;
  const auto num_ops = static_cast<plan::OpIndex>(before.programs[0].ops.size());
  // One in sight that can go two places on, or back.
  plan::OpIndex op = 0;
  plan::OpIndex moved_to = 0;
  plan::Schedule moved;
  ImGuiKey key = ImGuiKey_None;
  const auto goes_twice = [&](auto move) {
    moved = before;
    const plan::OpIndex once = move(op, &moved.programs[0]);
    moved_to = move(once, &moved.programs[0]);
    return once != op && moved_to != once;
  };
  for (op = 1; op < num_ops; ++op) {
    if (Drawn(fmt::format("op:{}", op)) == nullptr) continue;
    if (goes_twice(plan::IssueLater)) key = ImGuiKey_DownArrow;
    if (key == ImGuiKey_None && goes_twice(plan::IssueEarlier)) key = ImGuiKey_UpArrow;
    if (key != ImGuiKey_None) break;
  }
  ASSERT_LT(op, num_ops);
  const std::string name = OpName(before, before.programs[0].ops[static_cast<size_t>(op)]);
  Click(fmt::format("op:{}", op));
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ImGuiID focus = ImGui::GetFocusID();
    for (int press = 0; press < 2; ++press) test->KeyPress(ImGuiMod_Alt | key);
    test->Yield(4);
    EXPECT_EQ(ImGui::GetFocusID(), focus);
  }));
  const std::string title = fmt::format("{}  {}", moved_to, name);
  EXPECT_TRUE(harness_.Until([&] { return Drawn("selected") && Drawn("selected")->text == title; },
                             kScheduleSeconds));
  EXPECT_EQ(sheet().schedule, moved);
}

TEST_F(ScheduleTest, ATextThatWasChangedSinceIsNotCalledValid) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Home);
    test->KeyChars("# of mine");
    test->Yield(3);
    EXPECT_NE(Drawn("changed"), nullptr);
    EXPECT_EQ(Drawn("valid"), nullptr);
    test->KeyPress(ImGuiKey_Enter);  // the comment is a line of its own
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
    test->Yield(3);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
  }));
  EXPECT_TRUE(Shown("valid"));
}

// Of a text that can be read the grid is shown, with the op at fault marked.
TEST_F(ScheduleTest, TheOpAtFaultIsMarkedInTheGrid) {
  plan::Schedule wrong = sheet().schedule;
  plan::Program& program = wrong.programs[0];
  size_t copy_out = 0;
  while (program.ops[copy_out].kind != plan::OpKind::kCopyOut) ++copy_out;
  program.ops[copy_out].dependencies.clear();
  EXPECT_TRUE(harness_.Drive([text = plan::PrintSchedule(wrong)](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/text");
    test->ItemClick("##text");
    ImGui::SetClipboardText(text.c_str());
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_V);
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
  }));
  ASSERT_TRUE(Shown("refused"));
  EXPECT_EQ(sheet().schedule, wrong);
  EXPECT_EQ(sheet().refusal->kind, plan::RefusalKind::kOrder);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->SetRef("//###schedule");
    test->ItemClick("form/grid");
  }));
  ASSERT_TRUE(Shown("at_fault"));
  EXPECT_EQ(Drawn("at_fault")->text,
            OpName(wrong, program.ops[static_cast<size_t>(sheet().refusal->op)]));
}

}  // namespace
}  // namespace shardscope::ui_test
