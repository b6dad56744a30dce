// limit: the state of a frame is one struct, a field for each thing that panels ask for
// Context: the read-only state of one frame. The shell fills it; panels read it and return
// Commands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/control.h"
#include "lesson/check.h"
#include "lesson/lesson.h"
#include "trace/analysis/collectives/collective_table.h"
#include "trace/analysis/compare/delta.h"
#include "trace/analysis/find/area.h"
#include "trace/analysis/find/search.h"
#include "trace/analysis/ranks/rank_findings.h"
#include "trace/analysis/report/report.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/live_blocks.h"
#include "trace/query/select.h"
#include "trace/query/snapshot.h"
#include "ui/commands.h"
#include "ui/comparison.h"
#include "ui/draw_log.h"
#include "ui/lens.h"
#include "ui/run_place.h"
#include "ui/theme.h"

namespace shardscope::timeline {
class RunIndex;
}

namespace shardscope::ui {

// The visible time range that timeline and memory share.
struct View {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool follow = true;
  bool held = false;  // follows, but not while the mouse holds it still
};

struct SelectedOp {
  query::OpRunId op_run = query::OpRunId::None();
  int32_t rank = 0;
  bool operator==(const SelectedOp&) const = default;
};

struct Selection {
  query::OpRunId op_run = query::OpRunId::None();  // none: nothing selected
  int32_t rank = 0;
  std::vector<SelectedOp> also;  // Shift-click; never the one above
  // Instead of an op: the span of a kernel, a copy or a range of `rank`.
  query::SpanId span = query::SpanId::None();

  bool ContainsSpan(query::SpanId id, int32_t of_rank) const {
    return !span.is_none() && span == id && rank == of_rank;
  }

  bool Contains(const SelectedOp& op) const {
    return op == SelectedOp{op_run, rank} || std::find(also.begin(), also.end(), op) != also.end();
  }
};

enum class ConnectionState : uint8_t { kNone, kConnected, kLost };

// A knob that was turned in this window.
struct TurnedKnob {
  std::string key;
  std::string from;
  std::string to;

  bool operator==(const TurnedKnob&) const = default;
};

struct ControlState {
  ConnectionState connection = ConnectionState::kNone;
  config::RunStatus status;                    // newest
  std::map<std::string, std::string> unsent;   // sent, not yet answered
  std::string error;                           // last refusal, for the bar under the knobs
  std::map<std::string, std::string> refused;  // by key: why the value asked for last was
  std::optional<TurnedKnob> undoable;          // what UndoKnob takes back; none: nothing

  bool operator==(const ControlState&) const = default;
};

// A step of a run as the list of runs draws it, or the medians of a few; ns.
struct PictureBar {
  double compute_ns = 0;
  double exposed_ns = 0;  // communication
  double idle_ns = 0;
  double exposed_copy_ns = 0;
  double total_ns() const { return compute_ns + exposed_ns + exposed_copy_ns + idle_ns; }
  bool operator==(const PictureBar&) const = default;
};

// A run that the Runs panel lists.
struct RunEntry {
  std::string path;
  std::string name;
  bool live = false;
  std::vector<PictureBar> picture;  // its steps as it was last open; empty: not known
};

// What a new run can be started from.
struct Places {
  std::vector<RunEntry> runs;        // recent ones and those in ./runs, newest first
  std::vector<std::string> presets;  // files of assets/presets
  std::string trainer;               // path of shardscope-train; empty: not found
  std::string new_folder;            // a free folder to propose
};

// What another profiler recorded, while it is made into a run.
struct Importing {
  std::string name;       // of the file or folder
  double share = 0;       // that has been read
  int64_t left_ns = 0;    // 0: not known yet
  bool previews = false;  // the open run is made of the beginnings of its files

  bool operator==(const Importing&) const = default;
};

// The newest SELECT that ended.
struct SqlAnswer {
  std::string query;
  query::SelectedRows rows;
  std::string error;          // instead of rows
  bool is_cancelled = false;  // by the user
  int64_t took_ns = 0;
};

// What the panel SQL shows of the open run.
struct SqlConsole {
  bool is_open = false;              // tables have been asked for
  std::string running;               // the statement; empty: none
  std::vector<std::string> history;  // what was run, the newest last, each once
  std::shared_ptr<const SqlAnswer> answer;
  std::shared_ptr<const std::vector<query::TableColumns>> tables;
};

// An answer to the task or the quiz of the lesson that is shown.
struct JudgedAnswer {
  bool is_asked = false;                   // and not judged yet
  std::optional<lesson::Verdict> verdict;  // none: not judged, or `error`
  std::string error;                       // why it cannot be judged
};

// Behind the id of a lesson in `done`.
inline constexpr const char* kQuizDone = ".quiz";

// What the panel Lessons shows.
struct LessonsState {
  bool is_open = false;                                    // they have been asked for
  std::shared_ptr<const std::vector<lesson::Lesson>> all;  // numbers filled in; null: being read
  std::string error;                                       // why there are none
  std::string current;                                     // id; empty: the list
  std::set<std::string> done;  // ids of tasks, with kQuizDone of quizzes
  std::string run;             // folder of the current one's run; empty: it has none
  JudgedAnswer task;
  JudgedAnswer quiz;
};

// What changed at the newest change marker, for the before/after card and the dashed line.
struct ChangeSummary {
  bool valid = false;
  bool complete = false;      // both sides have enough steps
  bool may_complete = false;  // more steps behind it would make it so
  int32_t step = 0;
  int64_t time_ns = 0;
  std::vector<query::Marker> markers;
  analysis::Summary before;
  analysis::Summary after;
  // Of the steps after it; not comparable: too few to tell from noise.
  analysis::ComparisonVerdict step_verdict = analysis::ComparisonVerdict::kNotComparable;
  analysis::ComparisonVerdict exposed_verdict = analysis::ComparisonVerdict::kNotComparable;
  // Where steps after it have more or fewer tokens: of the time of a token, which is judged instead
  // of that of a step.
  std::optional<analysis::ComparisonVerdict> token_verdict;
  int64_t peak_before_bytes = 0;
  int64_t peak_after_bytes = 0;
};

// Which steps the window shows.
struct Focus {
  std::optional<analysis::Scope> scope;  // of the figures, as chosen; none: what the run's state
                                         // asks for
  int32_t step = -1;  // of the selected op if that is in view, else at the view's centre; -1: none
};

// How the timeline shows what is in view.
struct Lanes {
  std::set<int32_t> folded_ranks;
  std::set<int32_t> pinned_ranks;   // stand over all others
  std::set<int32_t> hidden_ranks;   // have no lanes
  std::vector<int32_t> rank_order;  // as arranged by hand; empty: that of the run
  int32_t shown_rank = -1;          // whose lanes are to be in sight
  int32_t shown_step = -1;          // that was asked for with it, or alone
  int shown = 0;                    // grows whenever lanes are to be in sight
  bool are_arranged = false;        // in another part of this run: none is folded by itself
  bool legend = true;
};

// What a query found in the rows of one Snapshot.
struct FoundHits {
  std::string text;             // the query
  query::SnapshotPtr snapshot;  // whose rows the hits are
  analysis::SearchResult result;
  std::optional<analysis::SearchError> error;  // why there are none
};

// The bookmarks of the open run.
struct BookmarkList {
  std::vector<bookmarks::Bookmark> all;
  std::string file;     // where they are kept; empty: in memory only
  std::string problem;  // why the file cannot be read, or written; empty: nothing is wrong
  int unsaved = 0;      // changes that could not be written, and are in `all`

  bool operator==(const BookmarkList&) const = default;
};

struct BookmarkTimes {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct Bookmarks {
  std::shared_ptr<const BookmarkList> list;         // null: not read yet
  std::vector<std::optional<BookmarkTimes>> times;  // of each; none: it is not in the run (yet)
  std::optional<bookmarks::Bookmark> form;          // that is being written; without id: a new one
};

// A configuration key that was asked for.
struct ShownKey {
  int times = 0;  // grows whenever one is
  std::string key;
  bool in_form = false;  // in that of a new run, else in Run control
};

// One line over the panels that says what was done, or why it was not.
struct Notice {
  std::string text;  // empty: nothing is said
  bool is_error = false;
  double until_seconds = 0;  // goes by itself then
};

struct SearchState {
  bool open = false;
  int opened = 0;    // grows whenever its field is to have the keyboard
  std::string text;  // as typed; empty: nothing is looked for
  // Of `text`, or, until that is done, of what was typed before; null: nothing is found yet.
  std::shared_ptr<const FoundHits> found;
  std::optional<analysis::SearchHit> current;  // that was stepped to
  int steps = 0;                               // ShowSearch's, until it is stepped
};

// The panel whose field is to have the keyboard.
struct TypedInto {
  std::string panel;
  int times = 0;  // grows whenever one is asked for

  // Whether this panel is, and was not when it last asked.
  bool IsNews(std::string_view id, int* seen) const {
    return std::exchange(*seen, times) != times && panel == id;
  }
};

// What is to be brought into view.
struct Revealed {
  std::optional<analysis::SearchHit> what;
  int count = 0;  // grows with every one
};

// A stretch of time that was marked.
struct AreaState {
  std::optional<analysis::AreaQuery> query;  // none: nothing is marked
  // What is in it, or, until that is measured, in the one before; null: nothing is measured yet.
  std::shared_ptr<const analysis::Area> measured;
};

struct MemoryChoices;  // ui/memory_choices.h

// What is live at one moment, block by block.
struct BlocksState {
  std::optional<int32_t> rank;   // none: the one that takes most
  std::optional<int64_t> at_ns;  // none: its peak; the time lens goes before
  std::optional<int64_t> since_ns;
  // To the newest question that was answered; null before the first.
  std::shared_ptr<const Result<query::LiveBlocks>> answer;
  // Instead of the blocks: what one change of the configuration would make of the peak.
  bool shows_choices = false;
  std::shared_ptr<const MemoryChoices> choices;  // null until they are found
};

struct ScheduleSheet;  // ui/schedule_sheet.h

// The text of a Schedule that is read and checked.
struct ScheduleState {
  std::shared_ptr<const std::string> asked;
  // Of `asked`, or of what was asked before; null until the first is made.
  std::shared_ptr<const ScheduleSheet> sheet;
};

struct PlanBesideActual;  // ui/planned_step.h

// What the Schedule plans, under each lane.
struct PlanState {
  bool is_on = false;
  std::shared_ptr<const PlanBesideActual> made;  // of the step in focus; null until it is made
};

// The critical path of a step, over the lanes.
struct CriticalPathState {
  bool is_on = false;
  // Of the step in focus, or of the newest finished one before it; until that is made, of the one
  // before; null: none is made.
  std::shared_ptr<const analysis::StepPath> made;
};

struct Context {
  query::SnapshotPtr snapshot;        // null: no run open
  std::string path;                   // of the run, as it was opened: absolute, what a link names
  RunPlace place = RunPlace::kThere;  // of what it was read from, as it was seen last
  std::shared_ptr<const analysis::Report>
      report;  // may be of a slightly older snapshot; null until the first is made
  // Those of the report, or of another scope of the same run; null until the first are made.
  std::shared_ptr<const analysis::Figures> figures;
  // Of the same scope; null where no panel shows them, and until the first are made.
  std::shared_ptr<const analysis::RankOverview> ranks;
  std::shared_ptr<const analysis::CollectiveTable> collectives;
  std::shared_ptr<const std::vector<analysis::StepRow>> step_table;  // of all steps
  Focus focus;
  // The snapshot's spans arranged for drawing; null only without a snapshot.
  std::shared_ptr<const timeline::RunIndex> index;
  ChangeSummary change;
  View view;
  Selection selection;
  int64_t hover_ns = -1;
  int32_t hover_rank = -1;  // whose lanes or memory the mouse is over; -1: it is over none
  Lanes lanes;
  SearchState search;
  AreaState area;
  Revealed revealed;
  TypedInto typed_into;
  LensState lens;
  PlanState plan;
  ScheduleState schedule;
  CriticalPathState critical_path;
  CompareState compare;
  BlocksState blocks;
  Bookmarks bookmarks;
  Notice notice;
  ShownKey shown_key;
  ControlState control;
  Places places;
  std::vector<std::string> log;  // messages of the app and tail of the run's log.txt
  std::string error;             // of opening a run; shown until the next try
  std::string start_error;       // of starting one; shown in its form until the next try
  std::string starting;          // folder of a run that was started and has no trace yet
  std::optional<Importing> importing;
  SqlConsole sql;
  LessonsState lessons;
  size_t dismissed_problems = 0;  // of the run's, that the user has put away
  Language language = Language::kEnglish;
  ThemeName theme_name = ThemeName::kDark;
  const Theme* theme = nullptr;
  Fonts fonts;
  float scale = 1;
  double time_seconds = 0;  // for animations; fixed in headless pictures
  Overlay overlay = Overlay::kNone;
  bool headless = false;  // shot: no animation, no hover
  // Where widgets log every text and control, for programs that drive the window; null: off.
  DrawLog* widgets_log = nullptr;
};

// Null: none is shown, or they are still being read.
inline const lesson::Lesson* CurrentLesson(const LessonsState& lessons) {
  if (lessons.all == nullptr) return nullptr;
  for (const lesson::Lesson& one : *lessons.all) {
    if (one.id == lessons.current) return &one;
  }
  return nullptr;
}

// How many files of the run are not whole. A preview of an import has the beginning of each.
inline size_t NumCutFiles(const Context& context) {
  const bool is_preview = context.importing && context.importing->previews;
  return context.report == nullptr || is_preview ? 0 : context.report->cut_files.size();
}

// What went wrong with the run: errors that ended it, files that could not be finished, or that are
// not whole.
inline size_t NumProblems(const Context& context) {
  if (context.snapshot == nullptr || context.report == nullptr) return 0;
  const analysis::Report& report = *context.report;
  return report.errors.size() + report.unfinished.size() + NumCutFiles(context) +
         (report.hang.is_hang ? 1 : 0);
}

inline bool AllFolded(const Context& context) {
  return context.snapshot != nullptr &&
         context.lanes.folded_ranks.size() >= context.snapshot->ranks.size();
}

}  // namespace shardscope::ui
