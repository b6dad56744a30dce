// Every action of the app is driven by each of its keys or, where it has none, from the palette,
// and what it does is seen. One that no test drives fails.
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "tests/ui/steered_run_test_util.h"
#include "trace/analysis/find/neighbours.h"
#include "ui/actions.h"
#include "ui/panel_list.h"
#include "ui/ranks.h"

namespace shardscope::ui_test {
namespace {

using analysis::SearchHit;
using ui::Text;

constexpr double kDrivenSeconds = 60;  // of the worst machine
constexpr int32_t kRankOfOps = 2;      // whose ops are selected
constexpr int32_t kRankThatIsSlow = 11;

// What only a run that trains takes.
const std::set<Text> kOfATraining = {Text::kCommandPause, Text::kCommandStep, Text::kCommandStop,
                                     Text::kCommandCheckpoint, Text::kCommandUndoKnob};

struct DrivenAction {
  Text title;
  std::function<bool()> is_done;  // false before
  std::function<void()> prepare;  // of the run as it is when it has been opened; may be empty
};

std::string TitleOf(Text title) { return ui::Tr(ui::Language::kEnglish, title); }

void ChooseInPalette(Harness* harness, const std::string& title) {
  EXPECT_TRUE(harness->Drive([&](ImGuiTestContext* test) {
    const auto is_marked = [&] {
      return harness->log().Find("palette", "marked:" + title) != nullptr;
    };
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_P);
    test->Yield(3);
    test->KeyChars(title.c_str());
    test->Yield(2);
    for (int i = 0; i < 20 && !is_marked(); ++i) {
      test->KeyPress(ImGuiKey_DownArrow);
      test->Yield();
    }
    EXPECT_TRUE(is_marked()) << title;
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(2);
  }));
}

bool HasKeyboard(const std::string& panel) {
  const ImGuiWindow* window = ImGui::GetCurrentContext()->NavWindow;
  return window != nullptr && std::string_view(window->RootWindow->Name).ends_with("###" + panel);
}

// Over a run of 16 ranks, one of them slow.
class DrivenActionsTest : public testing::Test {
 protected:
  DrivenActionsTest() : snapshot_(analysis::MakeLessonSnapshot(16, 20, 10, kRankThatIsSlow)) {
    // One in the middle of the run from which every way leads on.
    const query::RankRows& rows = *snapshot_->FindRank(kRankOfOps);
    for (size_t row = rows.op_runs.size() / 2; row < rows.op_runs.size() && !previous_; ++row) {
      op_ = analysis::HitOf(rows, analysis::HitKind::kOp, row);
      next_ = OfSameName(*snapshot_, op_, 1);
      waited_for_ = WaitedFor(*snapshot_, op_);
      waits_for_ = WaitsFor(*snapshot_, op_);
      if (next_ && waited_for_ && waits_for_) previous_ = OfSameName(*snapshot_, op_, -1);
    }
  }
  void SetUp() override { ASSERT_TRUE(previous_.has_value()); }

  const ui::Context& context() const { return harness_.context(); }
  bool Draws(std::string_view panel) const {
    return std::ranges::any_of(harness_.log().items(),
                               [&](const ui::DrawnItem& item) { return item.panel == panel; });
  }
  bool DrawsInTimeline(const char* id) const {
    return harness_.log().Find("timeline", id) != nullptr;
  }
  void Post(const ui::Commands& commands) {
    for (const ui::Command& command : commands) harness_.shell().Post(command);
    harness_.Frames(8);
  }
  // The run as it is when it has been opened, in a window as it is at first.
  void OpenAfresh() {
    harness_.shell().OpenSnapshot(snapshot_);
    Post({ui::ShowOverlay{}, ui::ShowSearch{false}, ui::SearchFor{}, ui::CloseLens{},
          ui::ShowPlan{false}, ui::ShowCriticalPath{false}, ui::ShowBeside{false},
          ui::ShowLegend{true}, ui::SetTheme{}, ui::SetLanguage{}, ui::SetScale{}, ui::SetHover{},
          ui::DismissNotice{}, ui::FocusPanel{"timeline"}});
  }
  void Press(ImGuiKeyChord chord) {
    EXPECT_TRUE(harness_.Drive([chord](ImGuiTestContext* test) { test->KeyPress(chord); }));
  }
  void Drive(const ui::Action& action, const DrivenAction& driven) {
    std::vector<ImGuiKeyChord> chords = {action.chord};
    if (action.also != 0) chords.push_back(action.also);
    for (const ImGuiKeyChord chord : chords) {
      OpenAfresh();
      if (driven.prepare) driven.prepare();
      ASSERT_FALSE(driven.is_done()) << TitleOf(action.title) << ": as it was before";
      if (chord == 0) {
        ChooseInPalette(&harness_, TitleOf(action.title));
      } else {
        Press(chord);
      }
      EXPECT_TRUE(harness_.Until(driven.is_done, kDrivenSeconds))
          << TitleOf(action.title) << ": " << (chord == 0 ? "" : ImGui::GetKeyChordName(chord));
    }
  }

  bool ShowsOnly(int64_t start_ns, int64_t end_ns) const {
    const ui::View& view = context().view;
    return view.start_ns <= start_ns && view.end_ns >= end_ns &&
           view.end_ns - view.start_ns < 3 * (end_ns - start_ns);
  }
  bool IsSelected(const std::optional<SearchHit>& hit) const {
    return context().selection.op_run == hit->op_run && context().selection.rank == hit->rank;
  }
  // Besides the op that was selected before.
  bool IsAdded(const std::optional<SearchHit>& hit) const {
    const std::vector<ui::SelectedOp> before = {{op_.op_run, op_.rank}};
    return IsSelected(hit) && context().selection.also == before;
  }
  void SelectOp() { Post({ui::SelectOp{op_.op_run, op_.rank}}); }
  // From where it was when the run was opened to another place.
  void MoveView() {
    first_start_ns_ = context().view.start_ns;
    const int64_t length_ns = snapshot_->end_ns - snapshot_->start_ns;
    Post({ui::SetView{snapshot_->start_ns, snapshot_->start_ns + length_ns / 4, false, false}});
    moved_start_ns_ = context().view.start_ns;
    ASSERT_NE(moved_start_ns_, first_start_ns_);
  }
  // With this hit as the current one.
  void Search(size_t hit) {
    const std::string query = "kind:all_gather step:3";
    Post({ui::ShowSearch{true}, ui::SearchFor{query}});
    ASSERT_TRUE(harness_.Until(
        [&] { return context().search.found && context().search.found->text == query; },
        kDrivenSeconds));
    ASSERT_GT(context().search.found->result.hits.size(), 2u);
    Post({ui::SelectHit{hit}});
  }
  bool IsCurrentHit(size_t hit) const {
    const ui::SearchState& search = context().search;
    return search.current && *search.current == search.found->result.hits[hit];
  }
  bool PictureIsAsked(ui::PictureKind kind) { return harness_.shell().TakeAskedPicture() == kind; }
  // The run, with a kernel that the op launched.
  query::SnapshotPtr WithKernel() const {
    auto run = std::make_shared<query::Snapshot>(*snapshot_);
    const query::TrackId track(1'000'000);
    run->tracks.push_back(
        {track, kRankOfOps, "GPU 0 context 1 stream 7", query::TrackRole::kHost, 1'000});
    run->gpu_streams.push_back({.rank = kRankOfOps,
                                .track = track,
                                .process = kRankOfOps,
                                .device = 0,
                                .context = 1,
                                .stream = 7});
    run->names.Append("kernel");
    for (query::RankRows& rows : run->ranks) {
      if (rows.rank != kRankOfOps) continue;
      const query::OpRun op = rows.op_runs[op_.row];
      query::GpuWork work;
      work.id = query::SpanId(1);
      work.track = track;
      work.start_ns = work.launch_start_ns = op.started_ns;
      work.end_ns = op.ended_ns;
      work.plan_op = op.plan_op;
      work.step = op.step;
      work.name = static_cast<int32_t>(run->names.size()) - 1;
      rows.gpu_work.Append(work);
    }
    return run;
  }

  std::vector<DrivenAction> OfRuns();
  std::vector<DrivenAction> OfTheView();
  std::vector<DrivenAction> OfOps();
  std::vector<DrivenAction> OfTheLens();
  std::vector<DrivenAction> OfRanks();
  std::vector<DrivenAction> OfTheWindow();
  std::vector<DrivenAction> OfOverlays();
  std::vector<DrivenAction> OfPanels();
  std::map<Text, DrivenAction> All();

  query::SnapshotPtr snapshot_;
  SearchHit op_;
  std::optional<SearchHit> previous_;
  std::optional<SearchHit> next_;
  std::optional<SearchHit> waited_for_;
  std::optional<SearchHit> waits_for_;
  int64_t first_start_ns_ = 0;
  int64_t moved_start_ns_ = 0;
  Harness harness_;
};

std::vector<DrivenAction> DrivenActionsTest::OfRuns() {
  return {
      {Text::kCommandOpen,
       [this] { return HasKeyboard("runs") && Draws("runs") && ImGui::GetIO().WantTextInput; },
       {}},
      {Text::kCommandNewRun,
       [this] {
         return HasKeyboard("runs") && harness_.log().Find("runs", "new_run") != nullptr &&
                ImGui::GetIO().WantTextInput;
       },
       {}},
      {Text::kCommandCloseRun,
       [this] { return context().snapshot == nullptr && HasKeyboard("runs"); },
       {}},
      {Text::kCommandAllSteps,
       [this] { return context().notice.text == TitleOf(Text::kAllStepsLoaded); },
       {}},
      // Those that have a table are saved in steps_test.cc.
      {Text::kCommandSaveTable,
       [this] {
         return context().notice.is_error &&
                context().notice.text.starts_with("Nothing in front has a table");
       },
       {}},
      {Text::kCommandSavePng, [this] { return PictureIsAsked(ui::PictureKind::kPng); }, {}},
      {Text::kCommandSaveSvg, [this] { return PictureIsAsked(ui::PictureKind::kSvg); }, {}},
      {Text::kCommandScope, [this] { return context().focus.scope.has_value(); }, {}},
      {Text::kCommandCopyLink,
       [this] {
         const ui::Notice& notice = context().notice;
         return !notice.is_error && notice.text.find('#') != std::string::npos;
       },
       {}},
      {Text::kCommandQuit, [this] { return harness_.shell().wants_quit(); }, {}},
  };
}

std::vector<DrivenAction> DrivenActionsTest::OfTheView() {
  return {
      {Text::kCommandFit, [this] { return ShowsOnly(op_.start_ns, op_.end_ns); },
       [this] { SelectOp(); }},
      {Text::kCommandMarkArea,
       [this] {
         const auto& area = context().area.query;
         return area && area->time == Interval{op_.start_ns, op_.end_ns} && area->ranks.empty();
       },
       [this] { SelectOp(); }},
      {Text::kCommandFitAll,
       [this] { return ShowsOnly(snapshot_->start_ns, snapshot_->end_ns); },
       {}},
      {Text::kCommandUndoView, [this] { return context().view.start_ns == first_start_ns_; },
       [this] { MoveView(); }},
      {Text::kCommandRedoView, [this] { return context().view.start_ns == moved_start_ns_; },
       [this] {
         MoveView();
         Post({ui::UndoView{}});
         EXPECT_TRUE(harness_.Until([&] { return context().view.start_ns == first_start_ns_; },
                                    kDrivenSeconds));
       }},
      {Text::kCommandFollow, [this] { return context().view.follow; }, {}},
      {Text::kCommandPlan, [this] { return context().plan.is_on && DrawsInTimeline("plan"); }, {}},
      {Text::kCommandCriticalPath,
       [this] { return context().critical_path.is_on && DrawsInTimeline("critical_path"); },
       {}},
      {Text::kCommandBeside,
       [this] { return context().compare.under_lanes && DrawsInTimeline("beside"); },
       {}},
      {Text::kCommandLegend, [this] { return !context().lanes.legend; }, {}},
      // With the mouse over the lanes: blocks_test.cc.
      {Text::kCommandBlocks, [this] { return HasKeyboard("blocks") && Draws("blocks"); }, {}},
      {Text::kCommandBlocksSince,
       [this] { return HasKeyboard("blocks") && context().blocks.since_ns != snapshot_->start_ns; },
       [this] {
         Post({ui::CompareBlocks{snapshot_->start_ns}, ui::FocusPanel{"timeline"}});
       }},
      {Text::kCommandChoices,
       [this] { return HasKeyboard("blocks") && context().blocks.shows_choices; },
       {}},
  };
}

std::vector<DrivenAction> DrivenActionsTest::OfOps() {
  const auto select = [this] { SelectOp(); };
  return {
      {Text::kCommandJump,
       [this] {
         return context().selection.span == query::SpanId(1) &&
                context().selection.op_run.is_none();
       },
       [this] {
         harness_.shell().OpenSnapshot(WithKernel());
         EXPECT_TRUE(harness_.Until([&] { return context().report != nullptr; }, kDrivenSeconds));
         SelectOp();
       }},
      {Text::kCommandPreviousOfName, [this] { return IsSelected(previous_); }, select},
      {Text::kCommandNextOfName, [this] { return IsSelected(next_); }, select},
      {Text::kCommandAlongBack, [this] { return IsSelected(waited_for_); }, select},
      {Text::kCommandAlongForward, [this] { return IsSelected(waits_for_); }, select},
      {Text::kCommandAddPreviousOfName, [this] { return IsAdded(previous_); }, select},
      {Text::kCommandAddNextOfName, [this] { return IsAdded(next_); }, select},
      {Text::kCommandAddAlongBack, [this] { return IsAdded(waited_for_); }, select},
      {Text::kCommandAddAlongForward, [this] { return IsAdded(waits_for_); }, select},
      {Text::kCommandClear, [this] { return context().selection.op_run.is_none(); }, select},
      {Text::kCommandSearch,
       [this] { return context().search.open && Draws("search") && ImGui::GetIO().WantTextInput; },
       {}},
      {Text::kCommandNextHit, [this] { return IsCurrentHit(1); }, [this] { Search(0); }},
      {Text::kCommandPreviousHit, [this] { return IsCurrentHit(0); }, [this] { Search(1); }},
  };
}

std::vector<DrivenAction> DrivenActionsTest::OfTheLens() {
  const auto open = [this](int slowness) {
    Post({ui::OpenLens{5}, ui::PlayLens{false}, ui::SetLensSlowness{slowness}});
  };
  return {
      {Text::kCommandPlayStep,
       [this] {
         return context().lens.is_on && context().lens.step >= 0 && DrawsInTimeline("lens_now");
       },
       {}},
      {Text::kCommandPlayView,
       [this] {
         return context().lens.is_on && context().lens.step < 0 && DrawsInTimeline("lens_now");
       },
       {}},
      {Text::kCommandLensSlower, [this] { return context().lens.slowness == 1'000; },
       [open] { open(100); }},
      {Text::kCommandLensFaster, [this] { return context().lens.slowness == 100; },
       [open] { open(1'000); }},
  };
}

std::vector<DrivenAction> DrivenActionsTest::OfRanks() {
  // The first two of the lanes, once rank 1 has been moved.
  const auto begin_with = [this](int32_t first, int32_t second) {
    const std::vector<int32_t> shown = ui::RanksInOrder(*context().snapshot, context().lanes);
    return shown[0] == first && shown[1] == second;
  };
  const auto select_rank_1 = [this] {
    Post({ui::SelectOp{snapshot_->FindRank(1)->op_runs[0].id, 1}});
  };
  return {
      {Text::kCommandFoldAll, [this] { return ui::AllFolded(context()); }, {}},
      {Text::kCommandFoldRank, [this] { return context().lanes.folded_ranks.contains(1); },
       select_rank_1},
      {Text::kCommandRankUp, [begin_with] { return begin_with(1, 0); }, select_rank_1},
      {Text::kCommandRankDown, [begin_with] { return begin_with(0, 2); }, select_rank_1},
      {Text::kCommandRankOrder, [this] { return context().lanes.rank_order.empty(); },
       [this] {
         std::vector<int32_t> order(snapshot_->ranks.size());
         std::iota(order.begin(), order.end(), 0);
         std::swap(order[0], order[1]);
         Post({ui::OrderRanks{order}});
       }},
      {Text::kCommandAllLanes,
       [this] {
         return context().lanes.hidden_ranks.empty() && context().lanes.pinned_ranks.empty();
       },
       [this] {
         Post({ui::PlaceRanks{{3}, ui::RankPlace::kHidden},
               ui::PlaceRanks{{4}, ui::RankPlace::kPinned}});
       }},
      {Text::kCommandSlowRank,
       [this] { return context().lanes.shown_rank == kRankThatIsSlow && HasKeyboard("timeline"); },
       [this] {
         Post({ui::FocusPanel{"ranks"}});
         ASSERT_TRUE(
             harness_.Until([&] { return context().ranks && context().ranks->findings.straggler; },
                            kDrivenSeconds));
       }},
  };
}

std::vector<DrivenAction> DrivenActionsTest::OfTheWindow() {
  return {
      {Text::kCommandTheme, [this] { return context().theme_name == ui::ThemeName::kLight; }, {}},
      {Text::kCommandLanguage, [this] { return context().language == ui::Language::kChinese; }, {}},
      {Text::kCommandLarger, [this] { return context().scale > 1.05F; }, {}},
      {Text::kCommandSmaller, [this] { return context().scale < 0.95F; }, {}},
      {Text::kCommandDefaultSize, [this] { return context().scale == 1; },
       [this] { Post({ui::SetScale{1.5F}}); }},
      {Text::kCommandResetLayout,
       [] { return ImGui::FindWindowByName("###memory")->DockNode != nullptr; },
       [this] {
         ImGui::DockContextQueueUndockWindow(ImGui::GetCurrentContext(),
                                             ImGui::FindWindowByName("###memory"));
         harness_.Frames(4);
       }},
  };
}

std::vector<DrivenAction> DrivenActionsTest::OfOverlays() {
  std::vector<DrivenAction> actions;
  for (const auto& [title, overlay, panel] :
       {std::tuple(Text::kCommandGoTo, ui::Overlay::kGoTo, "go_to"),
        {Text::kCommandAddBookmark, ui::Overlay::kBookmark, "bookmark"},
        {Text::kCommandChanges, ui::Overlay::kChanges, "changes"},
        {Text::kCommandKeys, ui::Overlay::kKeys, "keys"},
        {Text::kCommandPalette, ui::Overlay::kPalette, "palette"},
        {Text::kCommandMenu, ui::Overlay::kMenu, "menu"},
        {Text::kCommandHelp, ui::Overlay::kHelp, "help"}}) {
    const ui::Overlay wanted = overlay;
    const std::string drawn = panel;
    actions.push_back(
        {title, [=, this] { return context().overlay == wanted && Draws(drawn); }, {}});
  }
  return actions;
}

// Each is asked for while another one of its place is in front.
std::vector<DrivenAction> DrivenActionsTest::OfPanels() {
  const std::map<std::string, std::string> others = {{"timeline", "runs"},
                                                     {"run_control", "lessons"},
                                                     {"overlap", "advice"},
                                                     {"details", "blocks"}};
  std::vector<DrivenAction> actions;
  for (const ui::PanelInfo& panel : ui::kPanelList) {
    if (!panel.command) continue;
    const std::string id = panel.id;
    const bool types = panel.types;
    const auto is_shown = [=, this] {
      return HasKeyboard(id) && (types ? ImGui::GetIO().WantTextInput : Draws(id));
    };
    const auto other = others.find(id);
    if (other == others.end()) {
      actions.push_back({*panel.command, is_shown, {}});
      continue;
    }
    actions.push_back({*panel.command, is_shown, [this, id, behind = other->second] {
                         Post({ui::FocusPanel{behind}});
                         EXPECT_FALSE(Draws(id)) << id;
                       }});
  }
  return actions;
}

std::map<Text, DrivenAction> DrivenActionsTest::All() {
  std::map<Text, DrivenAction> all;
  for (const std::vector<DrivenAction>& some :
       {OfRuns(), OfTheView(), OfOps(), OfTheLens(), OfRanks(), OfTheWindow(), OfOverlays(),
        OfPanels()}) {
    for (const DrivenAction& action : some) all.emplace(action.title, action);
  }
  return all;
}

TEST_F(DrivenActionsTest, EachDoesWhatItSays) {
  const std::map<Text, DrivenAction> driven = All();
  for (const ui::Action& action : ui::AllActions()) {
    if (kOfATraining.contains(action.title)) continue;
    const auto found = driven.find(action.title);
    if (found == driven.end()) {
      ADD_FAILURE() << "no test drives: " << TitleOf(action.title);
      continue;
    }
    Drive(action, found->second);
  }
}

TEST_F(DrivenActionsTest, RowsOfTheMenuDoWhatTheirKeysDo) {
  const std::map<Text, DrivenAction> driven = All();
  const auto click = [this](const char* window, const std::string& item) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->SetRef(window);
      test->ItemClick(item.c_str());
      test->Yield(2);
    }));
  };
  for (const Text title : {Text::kCommandChanges, Text::kCommandCopyLink, Text::kCommandSaveTable,
                           Text::kCommandSavePng, Text::kCommandPalette, Text::kCommandKeys,
                           Text::kCommandHelp, Text::kCommandAddBookmark}) {
    OpenAfresh();
    const DrivenAction& action = driven.at(title);
    ASSERT_FALSE(action.is_done()) << TitleOf(title);
    click("//##top_bar", "menu");
    click("//##menu", TitleOf(title));
    EXPECT_TRUE(harness_.Until(action.is_done, kDrivenSeconds)) << TitleOf(title);
  }
  // The buttons of the form, which is the last.
  const auto num_bookmarks = [this] {
    const auto& list = context().bookmarks.list;
    return list == nullptr ? size_t{0} : list->all.size();
  };
  click("//##bookmark", "cancel");
  EXPECT_EQ(context().overlay, ui::Overlay::kNone);
  Press(ImGuiKey_B);
  EXPECT_EQ(context().overlay, ui::Overlay::kBookmark);
  EXPECT_EQ(num_bookmarks(), 0U);
  click("//##bookmark", "keep");
  EXPECT_EQ(context().overlay, ui::Overlay::kNone);
  EXPECT_TRUE(harness_.Until([&] { return num_bookmarks() == 1; }, kDrivenSeconds));
}

// They are in the list of keys, and no commands of their own.
TEST_F(DrivenActionsTest, LettersAndArrowsMoveTheView) {
  struct AxisKeyCase {
    ImGuiKey key;
    int moves;  // to the left or to the right
    int zooms;  // in or out
  };
  const auto sign = [](int64_t difference) { return (difference > 0) - (difference < 0); };
  for (const AxisKeyCase& one : {AxisKeyCase{ImGuiKey_A, -1, 0},
                                 {ImGuiKey_LeftArrow, -1, 0},
                                 {ImGuiKey_D, 1, 0},
                                 {ImGuiKey_RightArrow, 1, 0},
                                 {ImGuiKey_W, 0, -1},
                                 {ImGuiKey_UpArrow, 0, -1},
                                 {ImGuiKey_S, 0, 1},
                                 {ImGuiKey_DownArrow, 0, 1}}) {
    OpenAfresh();
    const ui::View before = context().view;
    const auto is_moved = [&] {
      const ui::View& now = context().view;
      const int length = sign((now.end_ns - now.start_ns) - (before.end_ns - before.start_ns));
      const int to = sign(now.start_ns - before.start_ns);
      return length == one.zooms && to == (one.zooms == 0 ? one.moves : -one.zooms);
    };
    ASSERT_FALSE(is_moved());
    Press(one.key);
    EXPECT_TRUE(harness_.Until(is_moved, kDrivenSeconds)) << ImGui::GetKeyName(one.key);
  }
}

class SteeredActionsTest : public SteeredRunTest {
 protected:
  void Drive(Text title) {
    const auto actions = ui::AllActions();
    const auto action = std::ranges::find(actions, title, &ui::Action::title);
    ASSERT_NE(action, actions.end());
    driven_.insert(title);
    harness_.shell().Post(ui::FocusPanel{"timeline"});
    harness_.Frames(8);
    if (action->chord == 0) return ChooseInPalette(&harness_, TitleOf(title));
    EXPECT_TRUE(
        harness_.Drive([chord = action->chord](ImGuiTestContext* test) { test->KeyPress(chord); }));
  }
  void Click(const char* item) {
    EXPECT_TRUE(harness_.Drive([item](ImGuiTestContext* test) { test->ItemClick(item); }));
  }
  // The next request is this one.
  void ExpectAsked(const std::string& asked) {
    wanted_.push_back(asked);
    EXPECT_TRUE(WaitForAsked(wanted_)) << asked;
  }
  ui::Overlay overlay() const { return harness_.context().overlay; }

  std::set<Text> driven_;
  std::vector<std::string> wanted_;
};

// Strategies stand in several rows.
TEST_F(SteeredActionsTest, TheStrategyInForceTakesBackOneOfAnotherRowThatWaits) {
  LetAskedWait();
  harness_.shell().Post(ui::FocusPanel{"run_control"});
  harness_.Frames(8);
  ASSERT_EQ(ui::ShownValue(harness_.context(), "strategy"), "full");
  Click("//###run_control/strategy/segments/FULL");  // nothing waits: nothing is asked
  harness_.shell().Post(ui::SetKnob{"strategy", "ddp"});
  ExpectAsked("strategy=ddp");
  ASSERT_TRUE(harness_.Until(
      [&] { return ui::PendingValue(harness_.context(), "strategy") == "ddp"; }, kSteeredSeconds));
  Click("//###run_control/strategy/segments/FULL");
  ExpectAsked("strategy=full");
  EXPECT_TRUE(
      harness_.Until([&] { return !ui::PendingValue(harness_.context(), "strategy").has_value(); },
                     kSteeredSeconds));
}

TEST_F(SteeredActionsTest, WhatIsTypedForOneRunIsNotThereInTheNext) {
  const char* field = "//###run_control/checkpointing/##text";
  const auto typed = [&] {
    std::string text;
    EXPECT_TRUE(
        harness_.Drive([&](ImGuiTestContext* test) { text = test->ItemReadAsString(field); }));
    return text;
  };
  const auto show = [&] {
    harness_.shell().Post(ui::FocusPanel{"run_control"});
    harness_.Frames(8);
  };
  show();
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->ItemInputValue(field, "nonsense");  // is kept, so that it can be mended
  }));
  EXPECT_EQ(typed(), "nonsense");
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 4, 99));
  show();
  ASSERT_TRUE(harness_.shell().Open(folder_.path()).ok());
  show();
  ASSERT_TRUE(harness_.Until([&] { return ui::CanSteer(harness_.context()); }, kSteeredSeconds));
  EXPECT_EQ(typed(), "");
}

TEST_F(SteeredActionsTest, EachAsksTheTraining) {
  Drive(Text::kCommandPause);
  ExpectAsked("pause");
  ASSERT_TRUE(WaitForState(config::RunState::kPaused));
  Drive(Text::kCommandPause);
  ExpectAsked("resume");
  Drive(Text::kCommandStep);
  ExpectAsked("step");
  Drive(Text::kCommandCheckpoint);
  ExpectAsked("checkpoint");
  Click("//##top_bar/step");
  ExpectAsked("step");
  Click("//##top_bar/pause");
  ExpectAsked("resume");
  ASSERT_TRUE(WaitForState(config::RunState::kTraining));
  Click("//##top_bar/pause");
  ExpectAsked("pause");

  harness_.shell().Post(ui::SetKnob{"prefetch.forward", "1"});
  ExpectAsked("prefetch.forward=1");
  ASSERT_TRUE(harness_.Until([&] { return harness_.context().control.undoable.has_value(); },
                             kSteeredSeconds));
  Drive(Text::kCommandUndoKnob);
  ExpectAsked("prefetch.forward=0");

  // It is asked first: Enter and the button beside it let the training go on.
  for (const bool by_key : {true, false}) {
    Drive(Text::kCommandStop);
    EXPECT_EQ(overlay(), ui::Overlay::kStopQuestion);
    EXPECT_NE(harness_.log().Find("stop_question", "title"), nullptr);
    if (by_key) {
      EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_Enter); }));
    } else {
      Click("//##stop_question/cancel");
    }
    EXPECT_EQ(overlay(), ui::Overlay::kNone);
  }
  Drive(Text::kCommandStop);
  Click("//##stop_question/stop");
  ExpectAsked("stop");
  EXPECT_EQ(overlay(), ui::Overlay::kNone);
  EXPECT_EQ(driven_, kOfATraining);
}

}  // namespace
}  // namespace shardscope::ui_test
