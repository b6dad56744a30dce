#include "ui/shell/window_app.h"

#include <imgui_internal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/window.h"
#include "ui/shell/shell.h"

namespace shardscope::shell {
namespace {

constexpr int kWidth = 1600;
constexpr int kHeight = 900;
// New rows alone redraw this often at most.
constexpr double kDataSeconds = 1.0 / 30;
constexpr double kSoftwareDataSeconds = 1.0 / 10;
// Dear ImGui answers an input over the next frames: hover, then focus, then layout.
constexpr int kFramesAfterEvent = 3;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Wakes by threads that have new rows are rationed; input is answered at once. Both end the same
// wait, so a wake by data says that it was one, and does not post while its ration is being waited
// out.
class Pace {
 public:
  explicit Pace(double data_seconds) : data_seconds_(data_seconds) {}

  // Any thread.
  void WakeForData() {
    if (!data_pending_.exchange(true) && !rationing_) WindowSurface::Wake();
  }

  // Waits until a frame is due, polling as often as the shell asks.
  void Wait(WindowSurface* window, Shell* shell) {
    if (frames_left_ > 0) {
      --frames_left_;
      window->Wait(0);
      // An input that came meanwhile has effects of its own.
      if (!ImGui::GetCurrentContext()->InputEventsQueue.empty()) frames_left_ = kFramesAfterEvent;
      return;
    }
    while (!WaitOnce(window, shell->SecondsUntilPoll())) {
      if (shell->Poll()) return;
    }
  }

 private:
  // false: nothing came within the time.
  bool WaitOnce(WindowSurface* window, double seconds) {
    const Clock::time_point begin = Clock::now();
    if (!data_pending_) window->Wait(seconds);
    if (data_pending_) {
      rationing_ = true;
      const double early = data_seconds_ - SecondsSince(last_data_frame_);
      if (early > 0) window->Wait(early);  // an input ends this too
      rationing_ = false;
      data_pending_ = false;
      last_data_frame_ = Clock::now();
      return true;
    }
    if (SecondsSince(begin) >= seconds) return false;
    // The wait ended before its time without new rows: an input.
    frames_left_ = kFramesAfterEvent;
    return true;
  }

  const double data_seconds_;
  std::atomic<bool> data_pending_{false};
  std::atomic<bool> rationing_{false};
  Clock::time_point last_data_frame_ = Clock::now();
  int frames_left_ = kFramesAfterEvent;
};

void DrawFrame(WindowSurface* window, Shell* shell) {
  window->BeginFrame();
  ImGui::NewFrame();
  shell->Frame();
  ImGui::Render();
  window->EndFrame();
}

bool ShowsRows(const ui::Context& context) {
  return context.snapshot != nullptr && !context.snapshot->ranks.empty() &&
         context.view.end_ns > context.view.start_ns;
}

}  // namespace

Status RunWindowApp(const WindowOptions& window_options) {
  Gui gui;
  auto window = WindowSurface::Create(kWidth, kHeight, "Shardscope");
  if (!window.ok()) return window.status();
  Pace pace(window.value()->software() ? kSoftwareDataSeconds : kDataSeconds);
  ShellOptions options;
  options.settings_folder = SettingsFolder();
  options.settings = LoadSettings(options.settings_folder);
  const float content_scale = window.value()->content_scale();
  if (content_scale >= 1.5f) options.default_scale = content_scale;
  options.wake = [&pace] { pace.WakeForData(); };
  Shell shell(std::move(options), gui.fonts().fonts);
  const std::string& run = window_options.run;
  if (run.empty()) {
    shell.Post(ui::FocusPanel{"runs"});  // where one is opened or started
  } else {
    SHARDSCOPE_RETURN_IF_ERROR(shell.Open(run));
  }
  while (!shell.wants_quit() && !window.value()->close_requested()) {
    DrawFrame(window.value().get(), &shell);
    if (window_options.first_frame_only && (run.empty() || ShowsRows(shell.context()))) {
      window_options.first_frame_only();
      break;
    }
    pace.Wait(window.value().get(), &shell);
    for (const std::string& path : window.value()->TakeDropped()) shell.Post(ui::OpenRun{path});
  }
  return Status::Ok();
}

}  // namespace shardscope::shell
