// RunSession: one open run: its trace, its report, its training's control, its log. The shell
// replaces it when another run is opened.
//
// Owner's thread only; readers and worker have their own threads inside.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/query/live_trace.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/shell/run/area_worker.h"
#include "ui/shell/run/bookmark_placer.h"
#include "ui/shell/run/bookmarks_worker.h"
#include "ui/shell/run/compare_workers.h"
#include "ui/shell/run/control_link.h"
#include "ui/shell/run/critical_paths.h"
#include "ui/shell/run/folder_watch.h"
#include "ui/shell/run/index_maker.h"
#include "ui/shell/run/lens_workers.h"
#include "ui/shell/run/memory_workers.h"
#include "ui/shell/run/plan_workers.h"
#include "ui/shell/run/report_worker.h"
#include "ui/shell/run/search_worker.h"
#include "ui/shell/run/sql_worker.h"
#include "ui/timeline/run_index.h"

namespace shardscope::shell {

// How far a run's log.txt was read, and when to look again.
struct LogPlace {
  int64_t offset = 0;  // bytes
  double next_seconds = 0;
};

// Of ui/panel_ids.h.
using PanelIds = std::vector<std::string_view>;

class RunSession {
 public:
  // Opens a run folder or trace file and follows it. `wake` is called on any thread when a frame
  // should look again.
  static Result<std::unique_ptr<RunSession>> Open(const std::string& path,
                                                  std::function<void()> wake,
                                                  const query::ReadLimits& limits = {});

  // A fixed snapshot, its report made at once: for pictures and tests.
  static std::unique_ptr<RunSession> OfSnapshot(query::SnapshotPtr snapshot);

  ~RunSession();

  // Looks after the training's answers and its log, which come without rows. true: there is
  // something new to show.
  bool Poll(double now_seconds, ui::Context* context);

  // Once a frame: puts what is newest into the context.
  void Update(double now_seconds, ui::Context* context);

  // Once a frame, after the view is known: asks for figures of this scope, and for what only panels
  // in front need of it, where they are of another one or of older rows, and puts those of a fixed
  // snapshot into the context.
  void AskForFigures(const analysis::Scope& scope, const PanelIds& in_front, ui::Context* context);

  // Once a frame: takes new rows into the index that is drawn from; then, when the view is known,
  // looks for the stalls in it. `whole`: all of it, else as much as a frame has time for. false:
  // there is more, draw another frame.
  bool TakeRows(bool whole);
  // `width`: at least the pixels that the view is wide.
  bool FindStalls(const ui::View& view, float width, bool whole);

  // Once a frame, with the rows of it: has what is typed looked for, what is marked measured, the
  // moments of the lens's stretch made, and puts what there is into the context. `at_once`: on this
  // thread, for pictures.
  void UpdateSearchAreaAndLens(bool at_once, ui::Context* context);

  // Once a frame, after the view is known and the step in focus: has made what else is asked for:
  // plan and critical path of the step, a Schedule's text, blocks of memory, the comparison with
  // another run; puts the newest answers into the context. Panels in front ask for more.
  void UpdatePanels(bool at_once, const PanelIds& in_front, ui::Context* context);

  // Reads the bookmarks of the run and follows their file. `opened`: as bookmarks::FileOf() has it.
  void FollowBookmarks(const std::string& opened);
  // Reads them once, on the calling thread: for headless pictures.
  void ReadBookmarks(const std::string& opened);
  // Null until FollowBookmarks().
  BookmarksWorker* bookmarks() { return bookmarks_.worker.get(); }
  // Once a frame: puts them into `shown`. false: not all have been looked for in the rows yet.
  bool UpdateBookmarks(ui::Bookmarks* shown);

  // Null for a fixed snapshot.
  ControlLink* control() { return control_.get(); }
  // Begins with the first call; null for a fixed snapshot.
  SqlWorker* sql();
  // Lists the tables on the calling thread: for headless pictures.
  void ListTables(ui::SqlConsole* console) const;
  bool live() const { return live_; }
  // Of the run; empty of a fixed snapshot.
  std::string path() const { return watch_ == nullptr ? "" : watch_->path(); }
  std::string folder() const;
  // Null for a fixed snapshot.
  const std::shared_ptr<FolderWatch>& watch() const { return watch_; }

 private:
  RunSession(std::function<void()> wake, std::shared_ptr<FolderWatch> watch, int64_t memory_bytes);
  void UpdateSearch(bool at_once, ui::SearchState* search);
  // On a run that goes on again and again, until no newer rows can change it.
  void UpdateArea(bool at_once, ui::AreaState* area);
  void UpdateLens(bool at_once, ui::LensState* lens);
  // The newest snapshot that may be shown: one that replaces the rows of the one before only once
  // what is drawn of it is there.
  query::SnapshotPtr TakeSnapshot(ui::Context* context);
  // Ends what workers keep of rows that others have taken the place of.
  void ForgetOldRows();
  static void Show(const Findings& findings, ui::Context* context);
  bool IsInPlace() const { return watch_ == nullptr || watch_->seen() == ui::RunPlace::kThere; }
  bool ReadLog(const std::string& folder, ui::Context* context);

  const std::function<void()> wake_;
  const std::shared_ptr<FolderWatch> watch_;  // of the path as opened; null for a fixed snapshot
  bool live_ = false;
  query::SnapshotPtr requested_;  // newest that there is
  FindingsRequest asked_;         // what the worker was last asked for
  query::SnapshotPtr shown_;
  std::shared_ptr<timeline::RunIndex> index_;  // of shown_; panels read it
  // Rows that take the place of all shown ones, and these afterwards: no frame waits until millions
  // are freed.
  struct Replacing {
    std::unique_ptr<IndexMaker> next_index;  // of requested_, while it waits to be shown
    query::SnapshotPtr old_snapshot;         // for one frame, in which panels take the next one
    std::shared_ptr<timeline::RunIndex> old_index;
    std::future<void> freeing;
  };
  Replacing replacing_;
  FindingsMaker fixed_findings_;  // of a fixed snapshot
  std::unique_ptr<ControlLink> control_;
  std::unique_ptr<ReportWorker> worker_;
  std::unique_ptr<SearchWorker> search_worker_;    // from the first search on
  std::unique_ptr<AreaWorker> area_worker_;        // from the first area on
  std::unique_ptr<MomentsWorker> moments_worker_;  // from the first lens on
  PlanWorkers plan_workers_;
  MemoryWorkers memory_workers_;
  CriticalPaths critical_paths_;
  CompareWorkers compare_workers_;
  std::unique_ptr<SqlWorker> sql_;
  struct RunBookmarks {
    std::unique_ptr<BookmarksWorker> worker;
    BookmarkListPtr read;  // of ReadBookmarks()
    BookmarkPlacer placer;
  };
  RunBookmarks bookmarks_;
  std::unique_ptr<query::LiveTrace> trace_;  // destroyed first: it calls wake
  LogPlace log_;
};

}  // namespace shardscope::shell
