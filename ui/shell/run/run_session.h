// RunSession: one open run: its trace, its report, its training's control, its log. The shell
// replaces it when another run is opened.
//
// Owner's thread only; readers and worker have their own threads inside.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/config/control_client.h"
#include "trace/base/mutex.h"
#include "trace/query/live_trace.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/planned_step.h"
#include "ui/shell/run/area_worker.h"
#include "ui/shell/run/blocks_worker.h"
#include "ui/shell/run/bookmark_placer.h"
#include "ui/shell/run/bookmarks_worker.h"
#include "ui/shell/run/compare_worker.h"
#include "ui/shell/run/folder_watch.h"
#include "ui/shell/run/lens_workers.h"
#include "ui/shell/run/memory_choices_worker.h"
#include "ui/shell/run/report_worker.h"
#include "ui/shell/run/schedule_worker.h"
#include "ui/shell/run/search_worker.h"
#include "ui/shell/run/sql_worker.h"
#include "ui/timeline/run_index.h"

namespace shardscope::shell {

// The app's connection to a run's training: connects in the background while the run
// is live, keeps its status fresh, and remembers what was asked and not yet answered.
//
// Owner's thread only; ControlClient has the socket's thread.
class ControlLink {
 public:
  explicit ControlLink(std::string run_folder);

  // Once a frame: takes answers, asks for the status four times a second, connects again after a
  // second. `live`: whether the trace is still being written; a run that has ended is not called.
  void Update(double now_seconds, bool live);

  void SetKnob(const std::string& key, const std::string& value);
  // Asks for the value before the last SetKnob() whose knob still stands where that has put it
  // (state().undoable), and returns what that was; nullopt: there is none.
  std::optional<ui::TurnedKnob> UndoKnob();
  void RevertPending();  // asks for the values in force again
  void Do(config::Action action);

  const ui::ControlState& state() const { return state_; }

 private:
  void Connect(double now_seconds);
  void Take(const config::Response& response);
  void SendSet(const std::map<std::string, std::string>& values);
  // Asked for, else in force; empty: not known.
  std::string ValueOf(const std::string& key) const;
  void FindUndoable();  // of turned_, for state()

  const std::string run_folder_;
  ui::ControlState state_;
  std::future<Result<std::unique_ptr<config::ControlClient>>> connecting_;
  std::unique_ptr<config::ControlClient> client_;
  std::map<int64_t, std::map<std::string, std::string>> asked_;  // set requests without an answer
  std::vector<ui::TurnedKnob> turned_;
  double next_connect_seconds_ = 0;
  double next_status_seconds_ = 0;
};

// Arranges the spans of a large trace for drawing on a thread of its own.
//
// Threads: all calls on the owner's thread; the index is made on the maker's.
class IndexMaker {
 public:
  // `wake` is called on the maker's thread once the index is made.
  IndexMaker(query::SnapshotPtr snapshot, std::function<void()> wake);
  // Asks the maker to stop, which it does after less than a millisecond's rows.
  ~IndexMaker() = default;
  IndexMaker(const IndexMaker&) = delete;
  IndexMaker& operator=(const IndexMaker&) = delete;

  bool ready() const;
  // The index, once: null before it is made and after it was taken.
  std::shared_ptr<timeline::RunIndex> Take();

 private:
  void Make(const std::stop_token& stop, const query::Snapshot& snapshot,
            const std::function<void()>& wake);

  mutable Mutex mutex_;
  std::shared_ptr<timeline::RunIndex> index_ GUARDED_BY(mutex_);  // null until it is complete
  std::jthread thread_;  // last: starts when all else is there
};

// How far a run's log.txt was read, and when to look again.
struct LogPlace {
  int64_t offset = 0;  // bytes
  double next_seconds = 0;
};

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

  // Once a frame, after the view is known: asks for figures of this scope where they are of another
  // one or of older rows, and puts those of a fixed snapshot into the context. `wanted.snapshot` is
  // filled in.
  void AskForFigures(FindingsRequest wanted, ui::Context* context);

  // Once a frame: takes new rows into the index that is drawn from; then, when the view is known,
  // looks for the stalls in it. `whole`: all of it, else as much as a frame has time for. false:
  // there is more, draw another frame.
  bool TakeRows(bool whole);
  // `width`: at least the pixels that the view is wide.
  bool FindStalls(const ui::View& view, float width, bool whole);

  // Once a frame: has what is typed looked for in the rows that are shown, and puts what was found
  // into `search`. `at_once`: on this thread, for pictures.
  void UpdateSearch(bool at_once, ui::SearchState* search);

  // Likewise what is marked is measured; on a run that goes on again and again, until no newer rows
  // can change it.
  void UpdateArea(bool at_once, ui::AreaState* area);

  // Once a frame: has the moments of the lens's stretch made, and puts them into `lens`.
  void UpdateLens(bool at_once, ui::LensState* lens);

  // Once a frame in which they are shown: has the blocks read that are asked for, and puts the
  // newest answer into `blocks`. nullopt: what was answered stays.
  void UpdateBlocks(bool at_once, const std::optional<query::BlocksQuery>& wanted,
                    ui::BlocksState* blocks);

  // Once a frame: has the text read that is asked for, and puts the newest answer into `schedule`.
  void UpdateSchedule(bool at_once, ui::ScheduleState* schedule);

  // Once a frame in which they are shown: finds the choices, again when a knob was turned.
  void UpdateMemoryChoices(bool at_once, ui::BlocksState* blocks);

  // Once a frame: has the plan of `step` made, and puts it into `plan`.
  void UpdatePlan(bool at_once, int32_t step, ui::PlanState* plan);
  // Likewise its critical path, or that of the newest step before it that all ranks have finished;
  // those that were made are kept.
  void UpdateCriticalPath(bool at_once, int32_t step, ui::CriticalPathState* path);
  // Once a frame: has the run compared with what is asked for, of a run that goes on again and
  // again where `in_front`, and puts the answer into `compare`.
  void UpdateCompare(bool at_once, bool in_front, ui::CompareState* compare);
  // Once a frame, after it: has the step of B beside `step` found, if it is to be shown.
  void UpdateBeside(bool at_once, int32_t step, const ui::Selection& selection,
                    ui::CompareState* compare);
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
  RunSession();
  // The newest snapshot that may be shown: one that replaces the rows of the one before only once
  // what is drawn of it is there.
  query::SnapshotPtr TakeSnapshot(ui::Context* context);
  // Ends what workers keep of rows that others have taken the place of.
  void ForgetOldRows();
  static void Show(const Findings& findings, ui::Context* context);
  bool IsInPlace() const { return watch_ == nullptr || watch_->seen() == ui::RunPlace::kThere; }
  bool ReadLog(const std::string& folder, ui::Context* context);

  std::function<void()> wake_;
  std::shared_ptr<FolderWatch> watch_;  // of the path as opened; null for a fixed snapshot
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
  struct PlanWorkers {
    std::unique_ptr<PlanWorker> plan;          // from the first plan on
    std::optional<int32_t> asked;              // of which step
    std::unique_ptr<ScheduleWorker> schedule;  // from the first text on
  };
  PlanWorkers plan_workers_;
  struct MemoryWorkers {
    std::unique_ptr<BlocksWorker> blocks;          // from the first question on
    std::unique_ptr<MemoryChoicesWorker> choices;  // likewise
  };
  MemoryWorkers memory_workers_;
  std::unique_ptr<PathWorker> path_worker_;  // from the first critical path on
  std::map<int32_t, std::shared_ptr<const analysis::StepPath>> paths_;  // by step
  struct CompareWorkers {
    std::unique_ptr<CompareWorker> compare;  // from the first comparison on
    std::unique_ptr<BesideWorker> beside;    // from the first step beside one on
    BesideRequest asked;                     // of it
  };
  CompareWorkers compare_workers_;
  int64_t memory_bytes_ = 0;  // of it, and of what it is compared with (query::ReadLimits)
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

// Ends sessions that were left on a thread of its own. A session waits for its
// reader, for the report in the making and frees millions of rows; no frame may wait for that.
//
// Close() on the UI thread; sessions end on the closer's thread.
class SessionCloser {
 public:
  SessionCloser() = default;
  ~SessionCloser() = default;  // waits until all have ended: what they call still exists then
  SessionCloser(const SessionCloser&) = delete;
  SessionCloser& operator=(const SessionCloser&) = delete;

  // Returns at once. Null is allowed.
  void Close(std::unique_ptr<RunSession> session);

 private:
  void Run(const std::stop_token& stop);

  Mutex mutex_;
  std::condition_variable_any left_;
  std::vector<std::unique_ptr<RunSession>> sessions_ GUARDED_BY(mutex_);
  std::jthread thread_;  // from the first session on; last, so that it ends before the rest
};

}  // namespace shardscope::shell
