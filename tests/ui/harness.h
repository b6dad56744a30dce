// Harness: the real shell and panels without a window, driven by the Dear ImGui Test Engine. Test
// support.
#pragma once

#include <imgui.h>
#include <imgui_te_context.h>
#include <imgui_te_engine.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/shell.h"

struct ImGuiWindow;

namespace shardscope::ui_test {

class Harness {
 public:
  // `folder`: where settings go; empty: nowhere. `programs`: where shardscope-train is.
  // `log_widgets`: log() has every text and control too. `memory_bytes`: as `open --memory`.
  explicit Harness(const std::string& folder = {}, const std::string& programs = {},
                   bool log_widgets = false, int64_t memory_bytes = 0);
  ~Harness();

  shell::Shell& shell() { return *shell_; }
  const ui::Context& context() const { return shell_->context(); }
  const ui::DrawLog& log() const { return shell_->draw_log(); }

  // Draws one frame, or many.
  void Frames(int count = 1);

  // CPU time of this thread for the dearest frame since the last call.
  int64_t TakeDearestFrameNs() { return std::exchange(dearest_frame_ns_, 0); }

  // From the next frame on.
  void Resize(int width, int height) { surface_ = shell::NullSurface(width, height); }

  // Draws frames in real time until `condition` holds; false after `seconds`.
  bool Until(const std::function<bool()>& condition, double seconds);

  // Runs `script` as a Test Engine test; true if it made no error.
  bool Drive(std::function<void(ImGuiTestContext*)> script);

 private:
  shell::Gui gui_;
  shell::NullSurface surface_;
  std::unique_ptr<shell::Shell> shell_;
  ImGuiTestEngine* engine_;
  std::function<void(ImGuiTestContext*)> script_;
  int64_t dearest_frame_ns_ = 0;
  std::deque<std::string> names_;  // the engine keeps pointers to them
};

// The middle of what was drawn as `id` in `panel`; fails the script if it was not drawn.
ImVec2 PlaceOf(const Harness& harness, const char* panel, const std::string& id);

// The window of a part of a panel (widgets::Part); fails the script if there is none.
ImGuiWindow* PartOf(const char* panel, const char* part);

// Whether the cells of a table, whose ids begin so ("loss:"), are as wide as their texts; false
// where there are none.
bool HaveRoom(const Harness& harness, const char* panel, const std::string& ids);

}  // namespace shardscope::ui_test
