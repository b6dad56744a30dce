#include "ui/shell/key_input.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "ui/actions.h"
#include "ui/panel_ids.h"

namespace shardscope::shell {
namespace {

constexpr double kPanShare = 0.12;
constexpr double kZoomFactor = 1.25;
constexpr double kEdgeShare = 0.01;  // some pixels; more while the key is held

bool Pressed(ImGuiKey key) { return ImGui::IsKeyPressed(key, true); }

constexpr auto kArrows = {ImGuiKey_LeftArrow, ImGuiKey_RightArrow, ImGuiKey_UpArrow,
                          ImGuiKey_DownArrow};

ImGuiID KeysOwner() { return ImHashStr("view"); }

// Else Dear ImGui would move the keyboard's focus with them, or scroll what has it.
void OwnKeys(std::initializer_list<ImGuiKey> keys) {
  for (const ImGuiKey key : keys) ImGui::SetKeyOwner(key, KeysOwner());
}

// Whether the item that has the keyboard keeps it for itself (widgets::TakeArrows).
bool IsOfItem(ImGuiKey key) {
  const ImGuiID owner = ImGui::GetKeyOwner(key);
  return owner != ImGuiKeyOwner_NoOwner && owner != KeysOwner();
}

bool IsPopupOpen() { return ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup); }

void ReadLensKeys(ui::Commands* commands) {
  if (IsPopupOpen() || IsOfItem(ImGuiKey_LeftArrow)) return;
  OwnKeys({ImGuiKey_LeftArrow, ImGuiKey_RightArrow});
  for (const auto& [key, direction] :
       {std::pair(ImGuiKey_LeftArrow, -1), std::pair(ImGuiKey_RightArrow, 1)}) {
    if (Pressed(key)) commands->push_back(ui::StepLens{direction});
  }
}

// Whether they move the view: not what has the keyboard's focus, or was clicked where there is no
// time axis.
bool AreArrowsFree(std::string_view panel) {
  if (ImGui::GetIO().NavVisible || IsPopupOpen()) return false;
  return panel == ui::panel_ids::kTimeline || panel == ui::panel_ids::kMemory ||
         ImGui::GetFocusID() == 0;
}

// Shift with left and right moves the end of the area that is marked; with Ctrl, too, its start.
// Neither passes the other. False: the keys are not about it.
bool ReadAreaKeys(const ui::Context& context, std::string_view panel, const ui::View& goal,
                  ui::Commands* commands) {
  const ImGuiIO& io = ImGui::GetIO();
  if (!context.snapshot || !context.area.query || context.lens.is_on) return false;
  if (!io.KeyShift || io.KeyAlt || !AreArrowsFree(panel)) return false;
  OwnKeys(kArrows);
  const int places = (Pressed(ImGuiKey_RightArrow) ? 1 : 0) - (Pressed(ImGuiKey_LeftArrow) ? 1 : 0);
  if (places == 0) return false;
  const double edge_ns = kEdgeShare * static_cast<double>(goal.end_ns - goal.start_ns);
  const int64_t by_ns = places * std::max<int64_t>(std::llround(edge_ns), 1);
  analysis::AreaQuery area = *context.area.query;
  Interval& time = area.time;
  // Rows of a live run that it was marked in may be gone.
  const bool is_outside =
      time.end_ns - 1 < context.snapshot->start_ns || time.start_ns + 1 > context.snapshot->end_ns;
  if (is_outside) return true;
  if (io.KeyCtrl) {
    time.start_ns = std::clamp(time.start_ns + by_ns, context.snapshot->start_ns, time.end_ns - 1);
  } else {
    time.end_ns = std::clamp(time.end_ns + by_ns, time.start_ns + 1, context.snapshot->end_ns);
  }
  commands->push_back(ui::SelectArea{std::move(area)});
  return true;
}

void ReadViewKeys(const ui::Context& context, std::string_view panel, const ui::View& goal,
                  ui::Commands* commands) {
  if (!context.snapshot) return;
  const bool arrows_are_free = AreArrowsFree(panel);
  const bool arrows_pan = arrows_are_free && !context.lens.is_on;  // else they step through ops
  if (arrows_are_free) OwnKeys(kArrows);
  const bool left = Pressed(ImGuiKey_A) || (arrows_pan && Pressed(ImGuiKey_LeftArrow));
  const bool right = Pressed(ImGuiKey_D) || (arrows_pan && Pressed(ImGuiKey_RightArrow));
  const bool in = Pressed(ImGuiKey_W) || (arrows_are_free && Pressed(ImGuiKey_UpArrow));
  const bool out = Pressed(ImGuiKey_S) || (arrows_are_free && Pressed(ImGuiKey_DownArrow));
  if (left) commands->push_back(Panned(goal, -kPanShare));
  if (right) commands->push_back(Panned(goal, kPanShare));
  const bool hovering = context.hover_ns >= goal.start_ns && context.hover_ns <= goal.end_ns;
  const int64_t around =
      hovering ? context.hover_ns : goal.start_ns + (goal.end_ns - goal.start_ns) / 2;
  if (in) commands->push_back(Zoomed(goal, 1 / kZoomFactor, around));
  if (out) commands->push_back(Zoomed(goal, kZoomFactor, around));
}

// 0: none.
ImGuiKeyChord PressedChord(const ui::Action& action) {
  for (const ImGuiKeyChord chord : {action.chord, action.also}) {
    if (chord != 0 && ImGui::IsKeyChordPressed(chord)) return chord;
  }
  return 0;
}

// What activates the item that has the keyboard, where that is seen: with any modifier.
bool IsOfFocus(ImGuiKeyChord chord) {
  return (chord & ~ImGuiMod_Mask_) == ImGuiKey_Space && ImGui::GetIO().NavVisible;
}

// What fields leave alone while the user types: function keys, and what they do not edit with of
// the keys with Ctrl.
bool GoesPastText(ImGuiKeyChord chord) {
  constexpr std::array kOfFields = {ImGuiMod_Ctrl | ImGuiKey_A,
                                    ImGuiMod_Ctrl | ImGuiKey_C,
                                    ImGuiMod_Ctrl | ImGuiKey_V,
                                    ImGuiMod_Ctrl | ImGuiKey_X,
                                    ImGuiMod_Ctrl | ImGuiKey_Y,
                                    ImGuiMod_Ctrl | ImGuiKey_Z,
                                    ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Z};
  const int key = chord & ~ImGuiMod_Mask_;
  if (key >= ImGuiKey_F1 && key <= ImGuiKey_F12) return true;
  const bool is_sign = (key >= ImGuiKey_0 && key <= ImGuiKey_Z) || key == ImGuiKey_Equal ||
                       key == ImGuiKey_Minus;  // others move the caret, or delete
  return (chord & ImGuiMod_Ctrl) != 0 && is_sign &&
         std::ranges::find(kOfFields, chord) == kOfFields.end();
}

}  // namespace

void ForgetLostFocus() {
  const ImGuiContext& gui = *ImGui::GetCurrentContext();
  if (gui.NavId == 0 || !gui.NavIdIsAlive) ImGui::SetNavCursorVisible(false);
}

ui::SetView Panned(const ui::View& view, double share) {
  const int64_t shift =
      static_cast<int64_t>(static_cast<double>(view.end_ns - view.start_ns) * share);
  return {view.start_ns + shift, view.end_ns + shift};
}

ui::SetView Zoomed(const ui::View& view, double factor, int64_t around_ns) {
  const auto scaled = [&](int64_t time_ns) {
    return around_ns + static_cast<int64_t>(static_cast<double>(time_ns - around_ns) * factor);
  };
  return {scaled(view.start_ns), scaled(view.end_ns)};
}

void ReadKeys(const ui::Context& context, std::string_view panel, const ui::View& goal,
              ui::Commands* commands) {
  // A question takes its own answer.
  if (context.overlay == ui::Overlay::kStopQuestion) return;
  const bool types = ImGui::GetIO().WantTextInput;
  const bool overlay = context.overlay != ui::Overlay::kNone;
  for (const ui::Action& action : ui::AllActions()) {
    const ImGuiKeyChord chord = PressedChord(action);
    if (chord == 0 || IsOfFocus(chord)) continue;
    if (types && !GoesPastText(chord)) continue;
    if (overlay && chord == ImGuiKey_Escape) continue;  // closes the overlay
    for (ui::Command& command : action.make(context)) commands->push_back(std::move(command));
  }
  const bool modified = ImGui::GetIO().KeyCtrl || ImGui::GetIO().KeyAlt;
  if (overlay || types) return;
  OwnKeys({ImGuiKey_Home, ImGuiKey_End});  // actions in every panel
  if (ReadAreaKeys(context, panel, goal, commands) || modified) return;
  ReadViewKeys(context, panel, goal, commands);
  if (context.lens.is_on) ReadLensKeys(commands);
}

}  // namespace shardscope::shell
