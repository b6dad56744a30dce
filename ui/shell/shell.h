// Shell: the only place that changes the app's state. Each frame it fills the Context from the open
// run, lets the panels draw, and applies the Commands that they return. The same shell draws into a
// window and into headless pictures.
//
// UI thread only. Dear ImGui's context must exist (ui/shell/backend/gui.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "trace/base/status.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/link.h"
#include "ui/panels/overlays/overlays.h"
#include "ui/panels/search/search_panel.h"
#include "ui/shell/lens_player.h"
#include "ui/shell/panel_windows.h"
#include "ui/shell/run/file_saver.h"
#include "ui/shell/run/lesson_worker.h"
#include "ui/shell/run/run_importer.h"
#include "ui/shell/run/run_session.h"
#include "ui/shell/run/session_closer.h"
#include "ui/shell/run/trainer_process.h"
#include "ui/shell/settings.h"
#include "ui/shell/view_controller.h"
#include "ui/theme.h"

namespace shardscope::shell {

struct ShellOptions {
  Settings settings;
  std::string settings_folder;  // empty: nothing is remembered
  std::string program_folder;   // where shardscope-train is; empty: beside this program
  float default_scale = 1;      // where the settings name none
  bool headless = false;        // no animation, no hover, no clock
  bool log_drawing = false;     // fill draw_log()
  bool log_widgets = false;     // with every text and control of the widgets
  int64_t memory_bytes = 0;     // for a run; 0: as query::ReadLimits
  std::function<void()> wake;   // called on any thread when there is something new to draw
};

class Shell {
 public:
  Shell(ShellOptions options, const ui::Fonts& fonts);
  ~Shell();

  // Errors are returned, and shown in the app until the next try.
  // `around_step`: of a run that does not fit into memory; none: the newest ones of interest.
  Status Open(const std::string& path, std::optional<int32_t> around_step = {});
  // The same of a path or a link: opens the run unless it is open, importing it first where it is
  // another profiler's, and goes to the place once that is there.
  Status OpenLinked(const std::string& text);
  // The same of what another profiler recorded: begins to import it, and opens it when it is there.
  void Import(const std::string& path);
  void OpenSnapshot(query::SnapshotPtr snapshot);
  // Of the snapshot, as they are now: for headless pictures. `opened`: as bookmarks::FileOf() has
  // it.
  void ReadBookmarks(const std::string& opened) { session_->ReadBookmarks(opened); }

  // One frame, between ImGui::NewFrame() and ImGui::Render().
  void Frame();

  // Of a file or folder that was dropped where the mouse is: over the panel Compare it is compared
  // with the open run, elsewhere it is opened.
  void Drop(const std::string& path);

  // Queued for the next frame, as if a panel had returned it.
  void Post(ui::Command command) { posted_.push_back(std::move(command)); }

  // How long the app may wait for an event: 0 while something moves, seconds while something is
  // polled, very long when nothing happens.
  double SecondsUntilPoll() const;

  // After such a wait without an event. true: a frame has something new to show.
  bool Poll();

  bool wants_quit() const { return wants_.quit; }
  // What the next frame is to be saved as, once.
  ui::PictureKind TakeAskedPicture() { return std::exchange(wants_.picture, {}); }
  // Writes that frame, which `make` encodes on another thread.
  void KeepPicture(ui::PictureKind kind, std::function<Result<std::string>()> make);
  const ui::Context& context() const { return context_; }
  const ui::DrawLog& draw_log() const { return draw_log_; }
  // What widgets draw from the next frame on, every text and control, is added to `log`, which has
  // to outlive those frames; null: to none.
  void LogWidgets(ui::DrawLog* log) { context_.widgets_log = log; }
  // What that panel, or "search", lists (Panel::AsTable); null: nothing that makes a table.
  ui::TableMaker TableOf(std::string_view panel) const;
  // For tests and pictures: puts the view around a step (InitialView).
  void ShowStep(int32_t step);
  // Goes to a place in the open run at once. Error: there is none.
  Status ShowLink(const ui::Link& link);

 private:
  friend struct Dispatcher;  // shell_dispatch.h: one function a command

  void Dispatch(const ui::Command& command);
  // Forgets the open run and everything that was about it.
  void CloseSession();

  void UpdateContext();
  void ShowFirst(const query::Snapshot& snapshot, int32_t step);
  void Use(std::unique_ptr<RunSession> session);
  void Remember(const std::string& path);  // as opened
  void RememberLook();                     // of the open run, for the list of runs
  void UpdateImport();
  void EndImport();
  void UpdateStarting();
  void UpdateFirstStep();
  void UpdatePlaces();
  void UpdateLessons();
  void DrawWindow(ui::Commands* commands);
  void DrawBanner(ui::Commands* commands);
  // Loads the steps around this one, of a run that does not fit into `memory_bytes`
  // (query::ReadLimits); and all, if they fit into memory.
  void OpenAround(int32_t step, int64_t memory_bytes);
  void OpenAll();
  void DrawDockSpace();
  void Say(const std::string& message);
  void Notify(const std::string& text, bool is_error);
  bool IsOpen(const std::string& path) const;
  void UpdateLink();
  void UpdateBookmarks();
  void SaveFile(SavedFile file);
  void SayWhatWasSaved();
  void KeepHoverUnderMouse(const ui::View& next);
  void ApplyLook();
  double Now() const;
  std::string ProgramsFolder() const;

  ShellOptions options_;
  ui::Context context_;
  ui::DrawLog draw_log_;
  ui::Commands posted_;
  ViewController view_;
  LensPlayer lens_player_{&context_.lens};
  PanelFrames panel_frames_;
  panels::SearchPanel search_panel_;
  panels::Overlays overlays_;
  SessionCloser closer_;
  FileSaver saver_;
  std::unique_ptr<RunSession> session_;
  std::unique_ptr<RunImporter> importer_;
  std::vector<std::unique_ptr<RunImporter>> cancelled_;  // that have not stopped yet
  std::optional<TrainerProcess> starting_;               // started, no trace yet
  std::optional<TrainerProcess> first_step_;  // its trace is open, its first step is not done
  // Where to go once the run is there.
  struct AwaitedLink {
    ui::Link link;
    bool of_import = false;
  };
  std::optional<AwaitedLink> link_;
  std::unique_ptr<LessonWorker> lesson_worker_;  // from the first lesson on
  std::string ini_path_;
  std::string focus_;  // panel to bring to the front in the next frame
  struct DrawnLayout {
    bool is_to_reset = false;
    ColumnsFor columns;  // when they were last drawn
    WantedColumns wanted;
  };
  DrawnLayout layout_;
  struct Wanted {
    bool quit = false;
    bool frame = false;            // more rows wait than one frame takes, or a search was asked for
    ui::PictureKind picture = {};  // of the next frame
  };
  Wanted wants_;
  bool look_changed_ = true;
  double next_places_seconds_ = 0;
  std::chrono::steady_clock::time_point last_frame_;
};

}  // namespace shardscope::shell
