#include "ui/actions.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ui/panel_ids.h"
#include "ui/panel_list.h"
#include "ui/ranks.h"
#include "ui/scope.h"
#include "ui/search.h"
#include "ui/values.h"
#include "ui/whole_run.h"

namespace shardscope::ui {
namespace {

Commands Do(const Context& context, config::Action action) {
  if (!CanSteer(context)) return {};
  return {DoAction{action}};
}
Commands PauseOrResume(const Context& context) {
  return Do(context, IsPaused(context) ? config::Action::kResume : config::Action::kPause);
}
// The training's, or that of what plays in the lens.
Commands PauseOrPlay(const Context& context) {
  if (context.lens.is_on) return {PlayLens{!context.lens.plays}};
  return PauseOrResume(context);
}
Commands PlayStep(const Context& context) {
  if (context.lens.is_on) return {CloseLens{}};
  return {OpenLens{std::max(context.focus.step, 0)}};
}
// `places` in the list of speeds: 1 is slower.
Commands ChangeSlowness(const Context& context, std::ptrdiff_t places) {
  if (!context.lens.is_on) return {};
  const auto at = std::find(kLensSlowness.begin(), kLensSlowness.end(), context.lens.slowness);
  const std::ptrdiff_t next = (at - kLensSlowness.begin()) + places;
  if (next < 0 || next >= static_cast<std::ptrdiff_t>(kLensSlowness.size())) return {};
  return {SetLensSlowness{kLensSlowness[static_cast<size_t>(next)]}};
}
Commands Toggle(const Context& context, Overlay overlay) {
  return {ShowOverlay{context.overlay == overlay ? Overlay::kNone : overlay}};
}
Commands FitAll(const Context& context) {
  if (!context.snapshot) return {};
  const View whole = WholeRun(*context.snapshot);
  return {SetView{whole.start_ns, whole.end_ns}};
}
Commands NextScopeOf(const Context& context) {
  if (!context.snapshot) return {};
  return {NextScope(context)};
}
Commands OtherTheme(const Context& context) {
  return {SetTheme{context.theme_name == ThemeName::kDark ? ThemeName::kLight : ThemeName::kDark}};
}
Commands OtherLanguage(const Context& context) {
  return {SetLanguage{context.language == Language::kEnglish ? Language::kChinese
                                                             : Language::kEnglish}};
}

template <Neighbour kWhich, bool kAdd = false>
Commands Select(const Context&) {
  return {SelectNeighbour{kWhich, kAdd}};
}

// What is in front goes first.
Commands CloseOrClear(const Context& context) {
  if (context.search.open) return {ShowSearch{false}};
  if (context.lens.is_on) return {CloseLens{}};
  return {SelectOp{}};
}

Commands FoldOrUnfold(const Context& context) {
  if (!context.snapshot) return {};
  return {FoldRanks{!AllFolded(context)}};
}

// Known while the ranks are shown.
Commands ShowSlowRank(const Context& context) {
  if (context.ranks == nullptr) return {FocusPanel{panel_ids::kRanks}};
  const auto& straggler = context.ranks->findings.straggler;
  if (!straggler) return {};
  return {ShowRank{straggler->ranks.front(), straggler->worst_step}};
}

enum class Way : uint8_t { kUp, kDown };

// The one that has what is selected, which stays the same one while its lanes move; else the one
// under the mouse; -1: none.
int32_t MeantRank(const Context& context) {
  const Selection& selection = context.selection;
  const bool has_selection = !selection.op_run.is_none() || !selection.span.is_none();
  return has_selection ? selection.rank : context.hover_rank;
}

Commands FoldOrUnfoldRank(const Context& context) {
  const int32_t rank = MeantRank(context);
  if (!context.snapshot || context.snapshot->FindRank(rank) == nullptr) return {};
  return {ToggleRank{rank}};
}

template <Way kWay>
Commands MoveRank(const Context& context) {
  if (!context.snapshot) return {};
  const int32_t rank = MeantRank(context);
  const std::vector<int32_t> shown = RanksInOrder(*context.snapshot, context.lanes);
  const auto found = std::ranges::find(shown, rank);
  if (found == shown.end()) return {};
  const auto at = static_cast<size_t>(found - shown.begin());
  // Over the one before it, or under the next.
  const size_t place = kWay == Way::kDown ? at + 2 : at - std::min<size_t>(at, 1);
  return {OrderRanks{OrderWithMoved(*context.snapshot, context.lanes, shown, rank, place)}};
}

Commands ShowAllLanes(const Context& context) {
  std::vector<int32_t> ranks;
  for (const auto* some : {&context.lanes.hidden_ranks, &context.lanes.pinned_ranks}) {
    ranks.insert(ranks.end(), some->begin(), some->end());
  }
  return {PlaceRanks{std::move(ranks), RankPlace::kInOrder}};
}

constexpr Action kRunAndView[] = {
    {Text::kCommandOpen, ImGuiMod_Ctrl | ImGuiKey_O, "Ctrl+O",
     [](const Context&) {
       return Commands{FocusPanel{panel_ids::kRuns, /*types=*/true}};
     }},
    {Text::kCommandNewRun, ImGuiMod_Ctrl | ImGuiKey_N, "Ctrl+N",
     [](const Context&) { return Commands{ShowKey{}}; }},
    {Text::kCommandCloseRun, ImGuiMod_Ctrl | ImGuiKey_W, "Ctrl+W",
     [](const Context&) { return Commands{CloseRun{}}; }},
    {Text::kCommandPause, ImGuiKey_Space, "Space", PauseOrPlay},
    {Text::kCommandStep, ImGuiMod_Shift | ImGuiKey_Space, "Shift+Space",
     [](const Context& context) { return Do(context, config::Action::kStep); }},
    {Text::kCommandStop, 0, "",
     [](const Context& context) {
       if (!CanSteer(context)) return Commands{};
       return Commands{ShowOverlay{Overlay::kStopQuestion}};
     }},
    {Text::kCommandCheckpoint, 0, "",
     [](const Context& context) { return Do(context, config::Action::kCheckpoint); }},
    {Text::kCommandFit, ImGuiKey_F, "F", [](const Context&) { return Commands{FitSelection{}}; }},
    {Text::kCommandMarkArea, ImGuiKey_E, "E", [](const Context&) { return Commands{MarkArea{}}; }},
    {Text::kCommandJump, ImGuiKey_O, "O", [](const Context&) { return Commands{JumpToOp{}}; }},
    {Text::kCommandPreviousOfName, ImGuiKey_Comma, ",", Select<Neighbour::kPreviousOfName>},
    {Text::kCommandNextOfName, ImGuiKey_Period, ".", Select<Neighbour::kNextOfName>},
    {Text::kCommandAlongBack, ImGuiKey_LeftBracket, "[", Select<Neighbour::kAlongBack>},
    {Text::kCommandAlongForward, ImGuiKey_RightBracket, "]", Select<Neighbour::kAlongForward>},
    {Text::kCommandAddPreviousOfName, ImGuiMod_Shift | ImGuiKey_Comma, "Shift+,",
     Select<Neighbour::kPreviousOfName, true>},
    {Text::kCommandAddNextOfName, ImGuiMod_Shift | ImGuiKey_Period, "Shift+.",
     Select<Neighbour::kNextOfName, true>},
    {Text::kCommandAddAlongBack, ImGuiMod_Shift | ImGuiKey_LeftBracket, "Shift+[",
     Select<Neighbour::kAlongBack, true>},
    {Text::kCommandAddAlongForward, ImGuiMod_Shift | ImGuiKey_RightBracket, "Shift+]",
     Select<Neighbour::kAlongForward, true>},
    {Text::kCommandFitAll, ImGuiKey_Home, "Home, 0", FitAll, ImGuiKey_0},
    {Text::kCommandUndoKnob, ImGuiMod_Ctrl | ImGuiKey_Z, "Ctrl+Z",
     [](const Context& context) { return CanSteer(context) ? Commands{UndoKnob{}} : Commands{}; }},
    {Text::kCommandUndoView, ImGuiKey_Backspace, "Backspace, Alt+Left",
     [](const Context&) { return Commands{UndoView{}}; }, ImGuiMod_Alt | ImGuiKey_LeftArrow},
    {Text::kCommandRedoView, ImGuiMod_Alt | ImGuiKey_RightArrow, "Alt+Right",
     [](const Context&) { return Commands{RedoView{}}; }},
    {Text::kCommandGoTo, ImGuiKey_G, "G",
     [](const Context& context) { return Toggle(context, Overlay::kGoTo); }},
    {Text::kCommandCopyLink, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_C, "Ctrl+Shift+C",
     [](const Context&) { return Commands{CopyLink{}}; }},
    {Text::kCommandAddBookmark, ImGuiKey_B, "B",
     [](const Context&) { return Commands{AddBookmark{}}; }},
    {Text::kCommandSearch, ImGuiKey_Slash, "/",
     [](const Context&) { return Commands{ShowSearch{true}}; }},
    {Text::kCommandNextHit, ImGuiKey_F3, "F3",
     [](const Context& context) { return StepToHit(context, 1); }},
    {Text::kCommandPreviousHit, ImGuiMod_Shift | ImGuiKey_F3, "Shift+F3",
     [](const Context& context) { return StepToHit(context, -1); }},
    {Text::kCommandPlayStep, ImGuiKey_P, "P", PlayStep},
    {Text::kCommandPlayView, ImGuiMod_Shift | ImGuiKey_P, "Shift+P",
     [](const Context&) { return Commands{OpenLens{}}; }},
    {Text::kCommandLensSlower, ImGuiKey_Minus, "-",
     [](const Context& context) { return ChangeSlowness(context, 1); }},
    {Text::kCommandLensFaster, ImGuiKey_Equal, "=",
     [](const Context& context) { return ChangeSlowness(context, -1); }},
    {Text::kCommandPlan, ImGuiKey_X, "X",
     [](const Context& context) { return Commands{ShowPlan{!context.plan.is_on}}; }},
    {Text::kCommandCriticalPath, ImGuiKey_K, "K",
     [](const Context& context) {
       return Commands{ShowCriticalPath{!context.critical_path.is_on}};
     }},
    {Text::kCommandBlocks, ImGuiKey_M, "M", [](const Context&) { return Commands{BlocksHere{}}; }},
    {Text::kCommandBlocksSince, ImGuiMod_Shift | ImGuiKey_M, "Shift+M",
     [](const Context&) { return Commands{BlocksHere{.since = true}}; }},
    {Text::kCommandChoices, 0, "", [](const Context&) { return Commands{ShowMemoryChoices{}}; }},
    {Text::kCommandFoldAll, ImGuiKey_Z, "Z", FoldOrUnfold},
    {Text::kCommandFoldRank, ImGuiMod_Shift | ImGuiKey_Z, "Shift+Z", FoldOrUnfoldRank},
    {Text::kCommandRankUp, ImGuiMod_Ctrl | ImGuiKey_LeftBracket, "Ctrl+[", MoveRank<Way::kUp>},
    {Text::kCommandRankDown, ImGuiMod_Ctrl | ImGuiKey_RightBracket, "Ctrl+]", MoveRank<Way::kDown>},
    {Text::kCommandRankOrder, 0, "", [](const Context&) { return Commands{OrderRanks{}}; }},
    {Text::kCommandLegend, 0, "",
     [](const Context& context) { return Commands{ShowLegend{!context.lanes.legend}}; }},
    {Text::kCommandFollow, ImGuiKey_End, "End",
     [](const Context&) { return Commands{SetFollow{true}}; }},
    {Text::kCommandChanges, ImGuiKey_C, "C",
     [](const Context& context) { return Toggle(context, Overlay::kChanges); }},
    {Text::kCommandClear, ImGuiKey_Escape, "Esc", CloseOrClear},
};

constexpr Action kTablesAndPictures[] = {
    {Text::kCommandSaveTable, ImGuiMod_Ctrl | ImGuiKey_E, "Ctrl+E",
     [](const Context&) { return Commands{SaveTable{}}; }},
    {Text::kCommandSavePng, ImGuiMod_Ctrl | ImGuiKey_S, "Ctrl+S",
     [](const Context&) { return Commands{SavePicture{PictureKind::kPng}}; }},
    {Text::kCommandSaveSvg, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_S, "Ctrl+Shift+S",
     [](const Context&) { return Commands{SavePicture{PictureKind::kSvg}}; }},
    {Text::kCommandSlowRank, 0, "", ShowSlowRank},
    {Text::kCommandAllLanes, 0, "", ShowAllLanes},
};

constexpr Action kMoreSteps[] = {
    {Text::kCommandBeside, ImGuiMod_Shift | ImGuiKey_V, "Shift+V",
     [](const Context& context) { return Commands{ShowBeside{!context.compare.under_lanes}}; }},
    {Text::kCommandAllSteps, 0, "", [](const Context&) { return Commands{LoadAllSteps{}}; }},
};

constexpr Action kApp[] = {
    {Text::kCommandScope, ImGuiKey_R, "R", NextScopeOf},
    {Text::kCommandTheme, ImGuiMod_Ctrl | ImGuiKey_T, "Ctrl+T", OtherTheme},
    {Text::kCommandLanguage, ImGuiMod_Ctrl | ImGuiKey_L, "Ctrl+L", OtherLanguage},
    {Text::kCommandLarger, ImGuiMod_Ctrl | ImGuiKey_Equal, "Ctrl+=",
     [](const Context& context) { return Commands{SetScale{context.scale * kScaleStep}}; }},
    {Text::kCommandSmaller, ImGuiMod_Ctrl | ImGuiKey_Minus, "Ctrl+-",
     [](const Context& context) { return Commands{SetScale{context.scale / kScaleStep}}; }},
    {Text::kCommandDefaultSize, ImGuiMod_Ctrl | ImGuiKey_0, "Ctrl+0",
     [](const Context&) { return Commands{SetScale{0}}; }},
    {Text::kCommandResetLayout, 0, "", [](const Context&) { return Commands{ResetLayout{}}; }},
    {Text::kCommandKeys, ImGuiMod_Shift | ImGuiKey_Slash, "?",
     [](const Context& context) { return Toggle(context, Overlay::kKeys); }},
    {Text::kCommandPalette, ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_P, "Ctrl+Shift+P, Ctrl+P",
     [](const Context& context) { return Toggle(context, Overlay::kPalette); },
     ImGuiMod_Ctrl | ImGuiKey_P},
    {Text::kCommandMenu, ImGuiKey_F10, "F10",
     [](const Context& context) { return Toggle(context, Overlay::kMenu); }},
    {Text::kCommandHelp, ImGuiKey_F1, "F1",
     [](const Context& context) { return Toggle(context, Overlay::kHelp); }},
    {Text::kCommandQuit, ImGuiMod_Ctrl | ImGuiKey_Q, "Ctrl+Q",
     [](const Context&) { return Commands{Quit{}}; }},
};

template <size_t kIndex>
Commands ShowPanel(const Context&) {
  return {FocusPanel{kPanelList[kIndex].id, kPanelList[kIndex].types}};
}

using MakeCommands = Commands (*)(const Context&);

template <size_t... kIndices>
constexpr std::array<MakeCommands, sizeof...(kIndices)> ShowPanels(
    std::index_sequence<kIndices...>) {
  return {ShowPanel<kIndices>...};
}

constexpr auto kShowPanels = ShowPanels(std::make_index_sequence<kPanelList.size()>());

// Ctrl+1 to Ctrl+9, letters, and then those without a key.
std::vector<Action> ActionsOfPanels() {
  std::vector<Action> actions;
  for (size_t at = 0; at < kPanelList.size(); ++at) {
    const PanelInfo& panel = kPanelList[at];
    if (!panel.command) continue;
    actions.push_back({*panel.command, panel.chord, panel.key_name, kShowPanels[at]});
  }
  const auto order = [](const Action& action) {
    const std::string_view key = action.key_name;
    return std::tuple(key.empty(), key.size() == 1, key);
  };
  std::stable_sort(actions.begin(), actions.end(),
                   [&order](const Action& a, const Action& b) { return order(a) < order(b); });
  return actions;
}

// In the order of the palette and of the list of keys.
std::vector<Action> MakeActions() {
  std::vector<Action> actions(std::begin(kRunAndView), std::end(kRunAndView));
  const auto add = [&actions](const auto& others) {
    actions.insert(actions.end(), std::begin(others), std::end(others));
  };
  add(ActionsOfPanels());
  add(kTablesAndPictures);
  add(kMoreSteps);
  add(kApp);
  return actions;
}

constexpr AxisKey kAxisKeys[] = {
    {Text::kKeyZoom, Text::kKeyWheel},
    {Text::kKeyZoomKeys, Text::kKeyZoomKeysName},
    {Text::kKeyPan, Text::kKeyDrag},
    {Text::kKeySelect, Text::kKeyClick},
    {Text::kKeyArea, Text::kKeyAreaName},
    {Text::kKeyAreaEdge, Text::kKeyAreaEdgeName},
    {Text::kKeyDoubleClick, Text::kKeyDoubleClickName},
    {Text::kKeyStepLens, Text::kKeyStepLensName},
    {Text::kKeyMoveOp, Text::kKeyMoveOpName},
    {Text::kKeyRunSql, Text::kKeyRunSqlName},
    {Text::kKeyFields, Text::kKeyFieldsName},
};

}  // namespace

std::span<const Action> AllActions() {
  static const std::vector<Action> actions = MakeActions();
  return actions;
}
std::span<const AxisKey> AxisKeys() { return kAxisKeys; }

}  // namespace shardscope::ui
