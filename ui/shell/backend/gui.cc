#include "ui/shell/backend/gui.h"

#include <imgui.h>

namespace shardscope::shell {

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

}  // namespace shardscope::shell
