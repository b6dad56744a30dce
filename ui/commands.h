// Commands: what panels ask the shell to do. Panels never change state themselves; the shell
// applies commands between frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/config/control.h"
#include "trace/analysis/find/area.h"
#include "trace/analysis/scope.h"
#include "ui/language.h"
#include "ui/link.h"

namespace shardscope::ui {

enum class ThemeName : uint8_t { kDark, kLight };
// What stands over the panels; one at a time.
enum class Overlay : uint8_t {
  kNone,
  kPalette,
  kKeys,
  kMenu,
  kChanges,
  kHelp,
  kGoTo,
  kBookmark,
  kStopQuestion
};

struct OpenRun {
  std::string path;  // or a link
};
struct CloseRun {};
struct CancelImport {};
struct StartRun {  // starts shardscope-train as a detached child, then opens its run
  std::string folder;
  std::map<std::string, std::string> values;  // keys that differ from the defaults
  std::string preset_file;                    // assets/presets/x.toml or empty
};
struct SetView {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool animate = true;
  bool keep_follow = false;
};
struct UndoView {};
struct RedoView {};  // what was undone last
struct ShowStep {    // that step with its neighbours
  int32_t step = 0;
};
struct GoToLink {  // of the open run, once what it names is there
  Link link;
};
struct LoadAllSteps {};  // of a run that is loaded in part, if they fit into memory
struct CopyLink {};      // to the view, into the clipboard
struct AddBookmark {};   // opens the form of one at what is selected, else at what is in view
struct EditBookmark {
  std::string id;
};  // opens its form
struct KeepBookmark {
  std::string note;
};  // of the form that is open
struct RemoveBookmark {
  std::string id;
};
struct CopyBookmark {  // its link, into the clipboard
  std::string id;
};
struct SetFollow {
  bool follow = true;
};
struct HoldView {};  // the next frame does not follow: the mouse rests on what is shown
struct SelectOp {
  query::OpRunId op_run = query::OpRunId::None();
  int32_t rank = 0;
  bool add = false;     // Shift-click: besides what is selected, or no longer
  bool reveal = false;  // brings its lane and its time into sight, as of a hit of the search
};                      // -1 clears
struct ShowOp {         // selects it and brings it into view: timeline, lane, time and Details
  query::OpRunId op_run = query::OpRunId::None();
  int32_t rank = 0;
};
struct SelectSpan {  // a kernel, copy or range
  query::SpanId span = query::SpanId::None();
  int32_t rank = 0;
};
// Marks a stretch of time, to be measured, instead of what is selected.
struct SelectArea {
  std::optional<analysis::AreaQuery> area;  // none: marks nothing
};
struct MarkArea {};  // what is selected, else the step in focus, else what is in view
enum class Neighbour : uint8_t {
  kPreviousOfName,
  kNextOfName,
  kAlongBack,  // what the selected op or kernel waited for
  kAlongForward
};
struct SelectNeighbour {  // and brings it into view
  Neighbour which = Neighbour::kNextOfName;
  bool add = false;  // ops that are selected stay so
};
struct FitSelection {};
struct JumpToOp {};  // from the selected kernel to its op, from an op to its first kernel
struct SetHover {
  int64_t time_ns = -1;
  int32_t rank = -1;             // whose lanes or memory are there
};                               // the cursor that runs through timeline and memory; -1 = none
struct AskBlocks {               // what is live at one moment, block by block, and shows it
  std::optional<int32_t> rank;   // none: as before, or the one that takes most
  std::optional<int64_t> at_ns;  // none: at its peak
};
struct CompareBlocks {                         // with another moment
  std::optional<int64_t> since_ns;             // none: with none
  std::optional<int32_t> rank = std::nullopt;  // where it was chosen; none: in no rank's place
};
// One of the two for the moment under the mouse, else the time lens's, else the start of what is
// selected; else for none.
struct BlocksHere {
  bool since = false;  // CompareBlocks, else AskBlocks
};
struct ShowMemoryChoices {  // instead of the blocks of a moment
  bool show = true;
};
struct ShowRank {  // in the timeline: its lanes, unfolded, in that step
  int32_t rank = 0;
  int32_t step = 0;
};
// Where the lanes of a rank stand: on top of all others, among them, or nowhere.
enum class RankPlace : uint8_t { kInOrder, kPinned, kHidden };
struct PlaceRanks {
  std::vector<int32_t> ranks;
  RankPlace place = RankPlace::kInOrder;
};
struct OrderRanks {
  std::vector<int32_t> ranks;  // from top to bottom; empty: that of the run
};
struct ToggleRank {
  int32_t rank = 0;
};  // fold or unfold a rank's lanes
struct FoldRanks {
  bool fold = true;
};  // all of them
struct SetKnob {
  std::string key;
  std::string value;
};                   // queued as pending; sent at once
struct UndoKnob {};  // that this app has turned last, and that is where it was turned to
struct SetScope {
  std::optional<analysis::Scope> scope;  // of the figures; none: what the run's state asks for
};
// Its knob in Run control; where there is none to turn, in the form of a new run. Without a key:
// that form, to look for one.
struct ShowKey {
  std::string key;
  bool in_form = false;  // in any case
};
struct RevertPending {};
struct DoAction {
  config::Action action = config::Action::kPause;
};
struct SetLanguage {
  Language language = Language::kEnglish;
};
struct SetTheme {
  ThemeName theme = ThemeName::kDark;
};
struct SetScale {
  float scale = 0;  // 0: the default one
};
struct ResetLayout {};
struct ShowOverlay {
  Overlay overlay = Overlay::kNone;
};
struct ShowSearch {  // opens or closes it; what was typed stays
  bool show = true;
  int steps = 0;  // to so many hits on, once they are found; 0: its field has the keyboard
};
struct SearchFor {
  std::string text;  // empty: for nothing
};
struct SelectHit {  // and brings it into view
  size_t hit = 0;   // of what was found
};
struct OpenLens {     // and plays it, but in pictures
  int32_t step = -1;  // a finished one; -1: what is in view
};
struct CloseLens {};
struct PlayLens {
  bool play = true;
};
struct SetLensSlowness {
  int slowness = 100;  // of kLensSlowness
};
struct SeekLens {
  int64_t time_ns = 0;
};
struct StepLens {     // to where an op begins or ends
  int direction = 1;  // or -1
};
struct CheckSchedule {  // reads and checks the text of one
  std::shared_ptr<const std::string> text;
};
struct RunSchedule {                        // in every step of the live run from now on
  std::shared_ptr<const std::string> text;  // null: what strategy and prefetch give
};
struct ShowPlan {
  bool show = true;
};
struct ShowCriticalPath {
  bool show = true;
};
struct ShowLegend {
  bool show = true;
};
struct FocusPanel {
  std::string panel;   // "timeline", "memory", "runs", ...
  bool types = false;  // into its field, if it has one
};
struct OpenSql {};  // lists the tables of the open run
struct RunSql {
  std::string query;
};  // one SELECT over the open run, instead of what runs
struct CancelSql {};
struct OpenLessons {};  // reads them
struct ShowLesson {
  std::string id;  // empty: the list of all
};
struct StartLesson {};  // trains the mini-run of the lesson that is shown, and opens it
struct AnswerLesson {
  bool quiz = false;
  std::string answer;
};  // of the lesson that is shown; checked in its run
// Compares the open run with another one, or two ranges of its own steps.
struct CompareWith {
  std::string path;                        // empty: the open run itself
  std::optional<analysis::Scope> steps_a;  // none: all
  std::optional<analysis::Scope> steps_b;
};
struct ShowBeside {  // B's steps under the lanes
  bool show = true;
};
struct CloseCompare {};  // stops it, or forgets what was compared
// What a panel lists as a CSV file in the folder `exports` beside the run.
struct SaveTable {
  std::string panel;  // empty: the one in front that has the keyboard
};
enum class PictureKind : uint8_t { kNone, kPng, kSvg };
struct SavePicture {  // of the window, likewise
  PictureKind kind = PictureKind::kPng;
};
struct DismissNotice {};
struct DismissProblems {};  // puts the banner over the panels away
struct Quit {};

using Command = std::variant<
    OpenRun, CloseRun, CancelImport, StartRun, SetView, UndoView, RedoView, ShowStep, GoToLink,
    LoadAllSteps, CopyLink, AddBookmark, EditBookmark, KeepBookmark, RemoveBookmark, CopyBookmark,
    SetFollow, HoldView, SelectOp, ShowOp, SelectSpan, SelectArea, MarkArea, SelectNeighbour,
    FitSelection, JumpToOp, SetHover, ShowRank, PlaceRanks, OrderRanks, ToggleRank, FoldRanks,
    SetKnob, UndoKnob, SetScope, ShowKey, RevertPending, DoAction, SetLanguage, SetTheme, SetScale,
    ResetLayout, ShowOverlay, ShowSearch, SearchFor, SelectHit, AskBlocks, CompareBlocks,
    BlocksHere, ShowMemoryChoices, OpenLens, CloseLens, PlayLens, SetLensSlowness, SeekLens,
    StepLens, CheckSchedule, RunSchedule, ShowPlan, ShowCriticalPath, ShowLegend, FocusPanel,
    OpenSql, RunSql, CancelSql, OpenLessons, ShowLesson, StartLesson, AnswerLesson, CompareWith,
    ShowBeside, CloseCompare, SaveTable, SavePicture, DismissNotice, DismissProblems, Quit>;
using Commands = std::vector<Command>;

}  // namespace shardscope::ui
