#include "ui/shell/backend/gui.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace shardscope::shell {
namespace {

// Where the next frame's input begins: at a release after something that it would change.
const ImGuiInputEvent* EndOfFrameInput(const ImVector<ImGuiInputEvent>& queue) {
  bool acted = false;
  for (const ImGuiInputEvent& event : queue) {
    const bool key = event.Type == ImGuiInputEventType_Key;
    if (key && !event.Key.Down && acted) return &event;
    acted = acted || (key && event.Key.Down) || event.Type == ImGuiInputEventType_MouseButton ||
            event.Type == ImGuiInputEventType_MouseWheel;
  }
  return queue.end();
}

bool IsModifier(const ImGuiInputEvent& event) {
  if (event.Type != ImGuiInputEventType_Key) return false;
  return (event.Key.Key & ImGuiMod_Mask_) != 0 || ImGui::IsLRModKey(event.Key.Key);
}

// FNV-1a, eight bytes at a time.
class Hash {
 public:
  void Add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes, sizeof(word));
      Mix(word);
    }
    for (; size > 0; --size) Mix(*bytes++);
  }
  template <typename Value>
  void AddValue(const Value& value) {
    Add(&value, sizeof(value));
  }
  uint64_t value() const { return value_; }

 private:
  void Mix(uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3;
    value_ ^= value_ >> 32;
  }

  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

Gui::Gui() : context_(ImGui::CreateContext()) {
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigDockingWithShift = false;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  io.IniFilename = nullptr;  // ui/shell/layout.cc names the file, if any
  io.LogFilename = nullptr;
  fonts_ = LoadFonts();
}

Gui::~Gui() { ImGui::DestroyContext(context_); }

void NewFrame() {
  ImVector<ImGuiInputEvent>& queue = ImGui::GetCurrentContext()->InputEventsQueue;
  const ImGuiInputEvent* end = EndOfFrameInput(queue);
  const std::vector<ImGuiInputEvent> later(end, static_cast<const ImGuiInputEvent*>(queue.end()));
  queue.resize(static_cast<int>(end - queue.begin()));
  ImGui::NewFrame();
  for (const ImGuiInputEvent& event : later) queue.push_back(event);
}

bool HasInput() {
  const ImVector<ImGuiInputEvent>& queue = ImGui::GetCurrentContext()->InputEventsQueue;
  return !std::all_of(queue.begin(), queue.end(), IsModifier);
}

uint64_t HashOf(const ImDrawData& data) {
  Hash hash;
  hash.AddValue(data.DisplaySize);
  for (const ImDrawList* list : data.CmdLists) {
    hash.Add(list->VtxBuffer.Data, static_cast<size_t>(list->VtxBuffer.size_in_bytes()));
    hash.Add(list->IdxBuffer.Data, static_cast<size_t>(list->IdxBuffer.size_in_bytes()));
    for (const ImDrawCmd& command : list->CmdBuffer) {
      hash.AddValue(command.ClipRect);
      hash.AddValue(command.ElemCount);
    }
  }
  return hash.value();
}

}  // namespace shardscope::shell
