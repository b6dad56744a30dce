#include "tests/ui/monkey.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

namespace shardscope::ui_test {
namespace {

// What fields, searches and consoles should take or refuse.
constexpr std::array<const char*, 14> kTexts = {
    "kind:all_gather exposed",
    "slower:1ms",
    "unit:block1",
    "-1",
    "99999999999999999999",
    "0",
    "3",
    "SELECT * FROM op_run",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT 1",
    "%s%n%x",
    "'; DROP TABLE op_run; --",
    "\"\"\"",
    "\xe6\x98\xbe\xe5\xad\x98",
    "step=2+3ms"};

constexpr std::array<ImGuiKey, 24> kOtherKeys = {
    ImGuiKey_LeftArrow, ImGuiKey_RightArrow,  ImGuiKey_UpArrow,      ImGuiKey_DownArrow,
    ImGuiKey_Home,      ImGuiKey_End,         ImGuiKey_PageUp,       ImGuiKey_PageDown,
    ImGuiKey_Enter,     ImGuiKey_Escape,      ImGuiKey_Tab,          ImGuiKey_Space,
    ImGuiKey_Delete,    ImGuiKey_Backspace,   ImGuiKey_Slash,        ImGuiKey_Period,
    ImGuiKey_Comma,     ImGuiKey_LeftBracket, ImGuiKey_RightBracket, ImGuiKey_Equal,
    ImGuiKey_Minus,     ImGuiKey_GraveAccent, ImGuiKey_Semicolon,    ImGuiKey_F11};

constexpr std::array<int, 9> kModifiers = {
    0, 0, 0, 0, 0, ImGuiMod_Ctrl, ImGuiMod_Shift, ImGuiMod_Ctrl | ImGuiMod_Shift, ImGuiMod_Alt};

void SendModifiers(int modifiers, bool down) {
  for (const ImGuiKey key : {ImGuiMod_Ctrl, ImGuiMod_Shift, ImGuiMod_Alt}) {
    if ((modifiers & key) != 0) ImGui::GetIO().AddKeyEvent(key, down);
  }
}

}  // namespace

int Monkey::Pick(int count) {
  // Not uniform_int_distribution: what that makes of a seed differs between libraries.
  return static_cast<int>(random_() % static_cast<uint64_t>(count));
}

ImVec2 Monkey::PickPlace(std::string* name) {
  const std::vector<ui::DrawnItem>& items = harness_.log().items();
  if (items.empty() || Pick(2) == 0) {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    *name = "somewhere";
    return {static_cast<float>(Pick(static_cast<int>(size.x))),
            static_cast<float>(Pick(static_cast<int>(size.y)))};
  }
  const ui::DrawnItem& item = items[static_cast<size_t>(Pick(static_cast<int>(items.size())))];
  *name = item.panel + "/" + item.id;
  return {(item.box.x0 + item.box.x1) / 2, (item.box.y0 + item.box.y1) / 2};
}

std::string Monkey::Click() {
  std::string name;
  const ImVec2 place = PickPlace(&name);
  const int button = Pick(8) == 0 ? ImGuiMouseButton_Right : ImGuiMouseButton_Left;
  const int modifiers = kModifiers[static_cast<size_t>(Pick(kModifiers.size()))];
  const int times = 1 + static_cast<int>(Pick(6) == 0);
  ImGuiIO& io = ImGui::GetIO();
  io.AddMousePosEvent(place.x, place.y);
  harness_.Frames();
  SendModifiers(modifiers, true);
  for (int i = 0; i < times; ++i) {
    io.AddMouseButtonEvent(button, true);
    harness_.Frames();
    io.AddMouseButtonEvent(button, false);
    harness_.Frames();
  }
  SendModifiers(modifiers, false);
  return fmt::format("click {} x{} modifiers {} at {},{} {}", button, times, modifiers, place.x,
                     place.y, name);
}

std::string Monkey::Drag() {
  std::string from_name;
  std::string to_name;
  const ImVec2 from = PickPlace(&from_name);
  const ImVec2 to = PickPlace(&to_name);
  const int modifiers = kModifiers[static_cast<size_t>(Pick(kModifiers.size()))];
  const int button = Pick(6) == 0 ? ImGuiMouseButton_Middle : ImGuiMouseButton_Left;
  ImGuiIO& io = ImGui::GetIO();
  io.AddMousePosEvent(from.x, from.y);
  harness_.Frames();
  SendModifiers(modifiers, true);
  io.AddMouseButtonEvent(button, true);
  harness_.Frames();
  for (const float share : {0.3F, 1.F}) {
    io.AddMousePosEvent(from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share);
    harness_.Frames();
  }
  io.AddMouseButtonEvent(button, false);
  SendModifiers(modifiers, false);
  return fmt::format("drag {} modifiers {} from {},{} {} to {},{} {}", button, modifiers, from.x,
                     from.y, from_name, to.x, to.y, to_name);
}

std::string Monkey::TurnWheel() {
  std::string name;
  const ImVec2 place = PickPlace(&name);
  const int modifiers = kModifiers[static_cast<size_t>(Pick(kModifiers.size()))];
  const float turns = static_cast<float>(Pick(21) - 10);
  ImGuiIO& io = ImGui::GetIO();
  io.AddMousePosEvent(place.x, place.y);
  harness_.Frames();
  SendModifiers(modifiers, true);
  io.AddMouseWheelEvent(Pick(4) == 0 ? turns : 0, turns);
  harness_.Frames();
  SendModifiers(modifiers, false);
  return fmt::format("wheel {} modifiers {} at {},{} {}", turns, modifiers, place.x, place.y, name);
}

std::string Monkey::PressKey() {
  constexpr int kLetters = ImGuiKey_Z - ImGuiKey_A + 1;
  constexpr int kDigits = 10;
  const int at = Pick(kLetters + kDigits + static_cast<int>(kOtherKeys.size()));
  ImGuiKey key = ImGuiKey_None;
  if (at < kLetters) {
    key = static_cast<ImGuiKey>(ImGuiKey_A + at);
  } else if (at < kLetters + kDigits) {
    key = static_cast<ImGuiKey>(ImGuiKey_0 + at - kLetters);
  } else {
    key = kOtherKeys[static_cast<size_t>(at - kLetters - kDigits)];
  }
  const int modifiers = kModifiers[static_cast<size_t>(Pick(kModifiers.size()))];
  SendModifiers(modifiers, true);
  ImGui::GetIO().AddKeyEvent(key, true);
  harness_.Frames();
  ImGui::GetIO().AddKeyEvent(key, false);
  SendModifiers(modifiers, false);
  return fmt::format("key {} modifiers {}", ImGui::GetKeyName(key), modifiers);
}

std::string Monkey::Type() {
  const char* text = kTexts[static_cast<size_t>(Pick(kTexts.size()))];
  ImGui::GetIO().AddInputCharactersUTF8(text);
  return fmt::format("type {}", text);
}

std::string Monkey::Resize() {
  const ImVec2 size(static_cast<float>(800 + Pick(3040)), static_cast<float>(500 + Pick(1660)));
  harness_.Resize(static_cast<int>(size.x), static_cast<int>(size.y));
  return fmt::format("resize to {}x{}", size.x, size.y);
}

std::string Monkey::Act() {
  std::string done;
  const int what = Pick(100);
  if (what < 45) {
    done = Click();
  } else if (what < 57) {
    done = Drag();
  } else if (what < 69) {
    done = TurnWheel();
  } else if (what < 90) {
    done = PressKey();
  } else if (what < 98) {
    done = Type();
  } else {
    done = Resize();
  }
  harness_.Frames(1 + Pick(3));
  // What workers make of it comes while it goes on.
  if (Pick(20) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Pick(40)));
  return done;
}

}  // namespace shardscope::ui_test
