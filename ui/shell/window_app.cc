#include "ui/shell/window_app.h"

#include <imgui.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>

#include "trace/base/output_file.h"
#include "ui/panel_ids.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/png.h"
#include "ui/shell/backend/svg.h"
#include "ui/shell/backend/window.h"
#include "ui/shell/drawn_json.h"
#include "ui/shell/pace.h"
#include "ui/shell/shell.h"

namespace shardscope::shell {
namespace {

constexpr int kWidth = 1600;
constexpr int kHeight = 900;
// New rows alone redraw this often at most: 30 times a second, with what a timer is late.
constexpr double kDataSeconds = 0.032;
constexpr double kSoftwareDataSeconds = 1.0 / 10;
// Dear ImGui answers an input over some frames: what it hits, what that changes, where that moves
// everything, what is shown then. Also, it takes a press and its release in two.
constexpr int kPassesAfterInput = 4;
constexpr int kMaximumPasses = 32;
// Tooltips come once the mouse has rested: a little more than Dear ImGui waits for that.
constexpr double kMouseRestSeconds = 0.2;

using Clock = std::chrono::steady_clock;

class WindowHost : public PaceHost {
 public:
  explicit WindowHost(WindowSurface* window) : window_(*window) {}
  void SetShell(Shell* shell) { shell_ = shell; }

  double Now() override {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  }
  void TakeInput(double seconds) override { window_.Wait(seconds); }
  bool HasInput() override { return window_.has_input(); }
  bool IsClosing() override { return window_.close_requested(); }
  void Wake() override { WindowSurface::Wake(); }
  double SecondsUntilPoll() override {
    return std::min(shell_->SecondsUntilPoll(), std::max(mouse_rests_at_ - Now(), 0.0));
  }
  bool Poll() override { return shell_->Poll(); }

  // Before a frame: how many passes Dear ImGui needs for what came.
  int TakePasses() {
    const bool rests = Now() >= mouse_rests_at_;
    if (rests) mouse_rests_at_ = kNever;
    if (HasInput()) mouse_rests_at_ = Now() + kMouseRestSeconds;
    return rests || HasInput() ? kPassesAfterInput : 1;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  WindowSurface& window_;
  Shell* shell_ = nullptr;
  double mouse_rests_at_ = 0;
};

// Lays out what Dear ImGui needs to answer all input, and draws the last of it only: laying out is
// cheap, drawing is not.
void DrawFrame(WindowSurface* window, Shell* shell, int passes, double frame_seconds) {
  const Clock::time_point start = Clock::now();
  const ui::PictureKind picture = shell->TakeAskedPicture();
  if (picture == ui::PictureKind::kSvg) DrawSharpEdges(true);
  int left = passes;
  for (int pass = 1;; ++pass) {
    window->BeginFrame();
    NewFrame();
    shell->Frame();
    left = window->has_input() ? kPassesAfterInput : left - 1;
    if (left <= 0 || pass == kMaximumPasses) break;
    ImGui::EndFrame();
  }
  ImGui::Render();
  if (picture == ui::PictureKind::kPng) window->CaptureNext();
  if (picture != ui::PictureKind::kSvg) window->EndFrame();  // its edges are not for the screen
  if (picture == ui::PictureKind::kPng) {
    shell->KeepPicture(picture, [image = window->TakeCaptured()] { return EncodePng(image); });
  } else if (picture == ui::PictureKind::kSvg) {
    DrawSharpEdges(false);
    shell->KeepPicture(picture, [svg = SvgOf(*ImGui::GetDrawData(), "Shardscope")] {
      return Result<std::string>(svg);
    });
  }
  std::this_thread::sleep_until(start + std::chrono::duration<double>(frame_seconds));
}

// The old log stays until the new one is whole.
void WriteDrawLog(const std::string& path, const Shell& shell, int64_t frame) {
  const ui::Context& context = shell.context();
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  const DrawnPage page{context.snapshot ? context.snapshot->name : "",
                       static_cast<int>(size.x),
                       static_cast<int>(size.y),
                       context.language,
                       context.theme_name,
                       DrawnPage::Window{frame, context.scale, context.view}};
  // Read by another program while it is written again and again: whole or not at all.
  (void)WriteFile(path, PrintDrawn(page, shell.draw_log()));
}

bool ShowsRows(const ui::Context& context) {
  return context.snapshot != nullptr && !context.snapshot->ranks.empty() &&
         context.view.end_ns > context.view.start_ns;
}

// Of a run that could not be opened or imported, when nothing else was opened since.
Status ErrorOf(const ui::Context& context) {
  const bool failed = context.snapshot == nullptr && !context.importing && !context.error.empty();
  return failed ? Status::Error(context.error) : Status::Ok();
}

// What the first frame shows. The start page says why a run could not be opened.
Status OpenAtStart(const WindowOptions& options, Shell* shell) {
  const Status opened = options.run.empty() ? Status::Ok() : shell->OpenLinked(options.run);
  if (options.run.empty() || !opened.ok()) {
    shell->Post(ui::FocusPanel{ui::panel_ids::kRuns});  // where one is opened or started
    return options.stays_without_run ? Status::Ok() : opened;
  }
  if (!options.with.empty()) shell->Post(ui::CompareWith{options.with, {}, {}});
  return Status::Ok();
}

}  // namespace

Status RunWindowApp(const WindowOptions& window_options) {
  Gui gui;
  SHARDSCOPE_ASSIGN_OR_RETURN(auto window, WindowSurface::Create(kWidth, kHeight, "Shardscope"));
  WindowHost host(window.get());
  Pace pace(&host, window->software() ? kSoftwareDataSeconds : kDataSeconds);
  ShellOptions options;
  options.settings_folder = SettingsFolder();
  options.settings = LoadSettings(options.settings_folder);
  options.memory_bytes = window_options.memory_bytes;
  options.log_drawing = options.log_widgets = !window_options.draw_log.empty();
  const float content_scale = window->content_scale();
  if (content_scale >= 1.5f) options.default_scale = content_scale;
  options.wake = [&pace] { pace.WakeForData(); };
  Shell shell(std::move(options), gui.fonts().fonts);
  host.SetShell(&shell);
  const std::string& run = window_options.run;
  SHARDSCOPE_RETURN_IF_ERROR(OpenAtStart(window_options, &shell));
  for (int64_t frame = 1; !shell.wants_quit() && !window->close_requested(); ++frame) {
    pace.BeginFrame();
    DrawFrame(window.get(), &shell, host.TakePasses(), window_options.frame_seconds);
    if (!window_options.draw_log.empty()) WriteDrawLog(window_options.draw_log, shell, frame);
    pace.EndFrame();
    if (window_options.first_frame_only && (run.empty() || ShowsRows(shell.context()))) {
      window_options.first_frame_only();
      break;
    }
    if (window_options.first_frame_only && !ErrorOf(shell.context()).ok()) break;
    pace.Wait();
    for (const std::string& path : window->TakeDropped()) shell.Drop(path);
  }
  window->Hide();
  return run.empty() ? Status::Ok() : ErrorOf(shell.context());
}

}  // namespace shardscope::shell
