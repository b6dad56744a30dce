// Input that comes faster than frames: nothing of it is lost.
#include "ui/shell/backend/gui.h"

#include <gtest/gtest.h>
#include <imgui.h>

#include "ui/shell/backend/headless.h"

namespace shardscope::shell {
namespace {

constexpr int kFrames = 8;

// In how many of the next frames `seen` holds.
template <typename Seen>
int CountFrames(Seen seen) {
  NullSurface surface(200, 200);
  int count = 0;
  for (int frame = 0; frame < kFrames; ++frame) {
    surface.BeginFrame();
    NewFrame();
    count += seen() ? 1 : 0;
    ImGui::Render();
    surface.EndFrame();
  }
  return count;
}

bool CtrlT() { return ImGui::IsKeyChordPressed(ImGuiMod_Ctrl | ImGuiKey_T); }

void AddCtrl(bool down) {
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, down);
  ImGui::GetIO().AddKeyEvent(ImGuiKey_LeftCtrl, down);
}

TEST(NewFrame, SeesAChordThatWasTappedWithinOneFrame) {
  const Gui gui;
  AddCtrl(true);
  EXPECT_EQ(CountFrames(CtrlT), 0);
  ImGui::GetIO().AddKeyEvent(ImGuiKey_T, true);
  AddCtrl(false);
  ImGui::GetIO().AddKeyEvent(ImGuiKey_T, false);
  EXPECT_EQ(CountFrames(CtrlT), 1);
  EXPECT_FALSE(ImGui::GetIO().KeyCtrl);
}

TEST(NewFrame, SeesEveryTapOfABurst) {
  const Gui gui;
  CountFrames([] { return false; });
  for (int tap = 0; tap < 3; ++tap) {
    AddCtrl(true);
    ImGui::GetIO().AddKeyEvent(ImGuiKey_T, true);
    ImGui::GetIO().AddKeyEvent(ImGuiKey_T, false);
    AddCtrl(false);
  }
  EXPECT_EQ(CountFrames(CtrlT), 3);
}

TEST(NewFrame, SeesTheModifierOfAWheel) {
  const Gui gui;
  AddCtrl(true);
  CountFrames([] { return false; });
  ImGui::GetIO().AddMouseWheelEvent(0, 1);
  AddCtrl(false);
  EXPECT_EQ(CountFrames([] { return ImGui::GetIO().MouseWheel > 0 && ImGui::GetIO().KeyCtrl; }), 1);
}

// A head of a table is pressed only where the mouse was over it the frame before.
TEST(NewFrame, SeesAClickOnWhatTheMouseHasJustComeTo) {
  const Gui gui;
  int sorted = 0;
  const auto table = [&] {
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize({200, 200});
    ImGui::Begin("window", nullptr, ImGuiWindowFlags_NoDecoration);
    if (ImGui::BeginTable("table", 1, ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate)) {
      ImGui::TableSetupColumn("column");
      ImGui::TableHeadersRow();
      ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
      if (specs->SpecsDirty && specs->SpecsCount > 0) ++sorted;
      specs->SpecsDirty = false;
      ImGui::EndTable();
    }
    ImGui::End();
    return false;
  };
  ImGui::GetIO().AddMousePosEvent(150, 150);
  CountFrames(table);
  ImGui::GetIO().AddMousePosEvent(30, 15);
  ImGui::GetIO().AddMouseButtonEvent(0, true);
  ImGui::GetIO().AddMouseButtonEvent(0, false);
  CountFrames(table);
  EXPECT_EQ(sorted, 1);
}

TEST(HasInput, IsTrueForAKeyAndNotForItsModifier) {
  const Gui gui;
  CountFrames([] { return false; });
  AddCtrl(true);
  EXPECT_FALSE(HasInput());
  ImGui::GetIO().AddKeyEvent(ImGuiKey_T, true);
  EXPECT_TRUE(HasInput());
  EXPECT_EQ(CountFrames(CtrlT), 1);
  EXPECT_FALSE(HasInput());
}

uint64_t HashOfText(const char* text) {
  NullSurface surface(200, 200);
  uint64_t hash = 0;
  for (int frame = 0; frame < kFrames; ++frame) {
    surface.BeginFrame();
    NewFrame();
    ImGui::GetForegroundDrawList()->AddText({10, 10}, 0xffffffff, text);
    ImGui::Render();
    hash = HashOf(*ImGui::GetDrawData());
    surface.EndFrame();
  }
  return hash;
}

TEST(HashOf, ChangesWithWhatIsDrawn) {
  const Gui gui;
  const uint64_t step = HashOfText("step 12");
  EXPECT_NE(HashOfText("step 13"), step);
  EXPECT_EQ(HashOfText("step 12"), step);
}

}  // namespace
}  // namespace shardscope::shell
