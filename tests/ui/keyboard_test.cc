// What the mouse can do, the keyboard can: every item that a click acts on is reached by Tab, which
// shows that it has been, and Enter or Space click it.
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <initializer_list>
#include <set>
#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "ui/shell/panel_windows.h"

namespace shardscope::ui_test {
namespace {

// Pictures in which the mouse points at a place, and what has a tooltip only. What a click does
// there keys do elsewhere: in a list or table beside it, or by a key of its own.
const std::set<std::string> kForTheMouse = {"##ruler", "##minimap", "##lanes",  "##memory",
                                            "##chart", "##scatter", "##matrix", "map",
                                            "label",   "name",      "state",    "number"};

class KeyboardTest : public testing::Test {
 protected:
  KeyboardTest() {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
    harness_.Frames(8);
  }
  void Press(std::initializer_list<ImGuiKeyChord> chords) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      for (const ImGuiKeyChord chord : chords) test->KeyPress(chord);
    }));
    harness_.Frames(6);
  }
  // Of what is seen of a panel.
  ImGuiTestItemList ItemsOf(const std::string& panel) {
    ImGuiTestItemList items;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->GatherItems(&items, test->GetID(("//###" + panel).c_str()), 9);
    }));
    return items;
  }
  static bool FocusIsSeen() { return ImGui::GetIO().NavVisible; }
  static std::string FocusedPanel() {
    const ImGuiWindow* window = ImGui::GetCurrentContext()->NavWindow;
    const std::string name = window == nullptr ? "" : window->RootWindow->Name;
    return name.substr(std::min(name.find("###"), name.size()));
  }
  // Presses Tab until the item with this label has the focus, then the chords. The Test Engine
  // takes what is seen of the focus away between two scripts.
  void PressOn(const std::string& panel, const char* label,
               std::initializer_list<ImGuiKeyChord> chords) {
    ImGuiID wanted = 0;
    ImGuiTestItemList items = ItemsOf(panel);
    for (const ImGuiTestItemInfo& item : items) {
      if (item.DebugLabel == std::string(label)) wanted = item.ID;
    }
    ASSERT_NE(wanted, 0U) << label;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      int left = items.GetSize();
      do {
        test->KeyPress(ImGuiKey_Tab);
      } while (ImGui::GetFocusID() != wanted && --left > 0);
      EXPECT_EQ(ImGui::GetFocusID(), wanted) << label;
      for (const ImGuiKeyChord chord : chords) test->KeyPress(chord);
      test->Yield(6);
    }));
  }

  Harness harness_;
};

TEST_F(KeyboardTest, ReachesWhatCanBeClickedInEveryPanel) {
  for (const shell::PanelWindow& panel : shell::PanelWindows()) {
    harness_.shell().Post(ui::FocusPanel{panel.id});
    harness_.Frames(8);
    bool has_goal = false;
    ImGuiTestItemList items = ItemsOf(panel.id);
    for (const ImGuiTestItemInfo& item : items) {
      if (*item.DebugLabel == '\0') continue;  // out of sight
      if ((item.ItemFlags & ImGuiItemFlags_NoNav) != 0) {
        EXPECT_TRUE(kForTheMouse.contains(item.DebugLabel)) << panel.id << ": " << item.DebugLabel;
      } else {
        has_goal |= (item.ItemFlags & ImGuiItemFlags_Disabled) == 0;
      }
    }
    Press({ImGuiKey_Tab});
    EXPECT_EQ(FocusIsSeen(), has_goal) << panel.id;
    EXPECT_EQ(FocusedPanel(), "###" + std::string(panel.id));
  }
}

TEST_F(KeyboardTest, ArrowsMoveTheViewUntilTabIsPressedAndAfterEscape) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    // Where the view is when it has come to rest after a key.
    const auto start_after = [&](ImGuiKey key) {
      test->KeyPress(key);
      test->SleepNoSkip(0.5F, 1.0F / 60);
      return harness_.context().view.start_ns;
    };
    const int64_t moved_ns = start_after(ImGuiKey_LeftArrow);
    EXPECT_LT(start_after(ImGuiKey_LeftArrow), moved_ns);
    EXPECT_FALSE(FocusIsSeen());
    const int64_t before_ns = start_after(ImGuiKey_Tab);
    EXPECT_TRUE(FocusIsSeen());
    EXPECT_EQ(start_after(ImGuiKey_LeftArrow), before_ns);
    EXPECT_EQ(start_after(ImGuiKey_DownArrow), before_ns);
    test->KeyPress(ImGuiKey_Escape);
    test->Yield(2);
    EXPECT_FALSE(FocusIsSeen());
    EXPECT_LT(start_after(ImGuiKey_LeftArrow), before_ns);
    test->KeyPress(ImGuiKey_Tab);
    test->Yield(2);
    EXPECT_TRUE(FocusIsSeen());
  }));
}

TEST_F(KeyboardTest, SpaceClicksWhatHasTheFocus) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  ASSERT_FALSE(harness_.context().critical_path.is_on);
  PressOn("timeline", "##critical_path", {ImGuiKey_Space});
  EXPECT_TRUE(harness_.context().critical_path.is_on);
}

TEST_F(KeyboardTest, GoesOverTheCellsOfRanks) {
  const auto show = [&] {
    harness_.shell().Post(ui::FocusPanel{"ranks"});
    harness_.Frames(8);
  };
  const auto tooltip = [&] {
    const ui::DrawnItem* tip = harness_.log().Find("ranks", "tooltip");
    return tip == nullptr ? std::string() : tip->text;
  };
  show();
  // On the label of the first rank.
  PressOn("ranks", "##cells", {ImGuiKey_DownArrow, ImGuiKey_Enter});
  EXPECT_EQ(harness_.context().lanes.pinned_ranks, (std::set<int32_t>{1}));
  show();
  PressOn("ranks", "##cells", {ImGuiMod_Shift | ImGuiKey_Enter});
  EXPECT_EQ(harness_.context().lanes.hidden_ranks, (std::set<int32_t>{1}));
  show();
  PressOn("ranks", "##cells",
          {ImGuiKey_DownArrow, ImGuiKey_RightArrow, ImGuiKey_RightArrow, ImGuiKey_RightArrow});
  EXPECT_EQ(tooltip(), "rank 2, step 2");
  PressOn("ranks", "##cells", {ImGuiKey_Enter});
  EXPECT_NE(harness_.log().Find("timeline", "rank:2"), nullptr);
  const ui::View& view = harness_.context().view;
  const query::Step& step = harness_.context().snapshot->ranks[2].steps[2];
  EXPECT_LT(view.start_ns, step.end_ns);
  EXPECT_GT(view.end_ns, step.start_ns);
  // Arrows stop at the edges.
  show();
  PressOn("ranks", "##cells",
          {ImGuiKey_UpArrow, ImGuiKey_UpArrow, ImGuiKey_UpArrow, ImGuiKey_LeftArrow,
           ImGuiKey_LeftArrow, ImGuiKey_LeftArrow, ImGuiKey_LeftArrow, ImGuiKey_RightArrow});
  EXPECT_EQ(tooltip(), "rank 0, step 0");
}

}  // namespace
}  // namespace shardscope::ui_test
