#include "ui/panels/overlays/overlays.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "trace/analysis/moment/moment.h"
#include "trace/analysis/scope.h"
#include "trace/base/text.h"
#include "ui/actions.h"
#include "ui/link.h"
#include "ui/palette.h"
#include "ui/panel_ids.h"
#include "ui/panels/overlays/bookmark_form.h"
#include "ui/panels/overlays/help.h"
#include "ui/text.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/link_place.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;
using widgets::Look;

constexpr float kFieldTop = 80;  // of the overlays that take text
constexpr float kKeyColumn = 150;
constexpr float kChangeRowHeight = 26;
constexpr int kPaletteRows = 12;        // that Page Up and Down go past
constexpr size_t kMostChangeRows = 14;  // changes in sight at once

// Its id in the draw log, and where it stands.
struct OverlayFrame {
  const char* id = nullptr;
  widgets::OverlayPlace place;
};

OverlayFrame FrameOf(const Look& look, ui::Overlay overlay) {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const auto below_top = [&](float width, float height) {
    return widgets::OverlayPlace{
        .at = {viewport->GetCenter().x, viewport->Pos.y + look.Px(kFieldTop)},
        .pivot = {0.5f, 0},
        .width = width,
        .height = height};
  };
  switch (overlay) {
    case ui::Overlay::kNone:
      break;
    case ui::Overlay::kMenu:
      return {"menu",
              {.at = {viewport->Pos.x + viewport->Size.x - look.Px(ui::kGrid),
                      viewport->Pos.y + look.Px(ui::kTopBarHeight)},
               .pivot = {1, 0},
               .width = 260}};
    case ui::Overlay::kChanges:
      return {"changes", widgets::InTheMiddle(460)};
    case ui::Overlay::kPalette:
      return {"palette", below_top(460, 420)};
    case ui::Overlay::kKeys:
      return {"keys", widgets::InTheMiddle(520)};
    case ui::Overlay::kBookmark:
      return {"bookmark", below_top(420, 0)};
    case ui::Overlay::kGoTo:
      return {"go_to", below_top(420, 0)};
    case ui::Overlay::kHelp:
      return {"help", widgets::InTheMiddle(520)};
    case ui::Overlay::kStopQuestion:
      return {"stop_question", widgets::InTheMiddle(360)};
  }
  return {};
}

bool TakesText(ui::Overlay overlay) {
  return overlay == ui::Overlay::kPalette || overlay == ui::Overlay::kGoTo ||
         overlay == ui::Overlay::kBookmark;
}

// One choice with its name over it. Returns the option clicked, or -1.
int Choose(const Look& look, const ui::Context& context, Text title,
           const widgets::Segments& segments, ui::DrawLog* log) {
  const char* text = Tr(context.language, title);
  log->Text(std::string("choice:") + Tr(ui::Language::kEnglish, title), text,
            widgets::FaintHeading(look, text));
  return widgets::Segmented(look, Tr(ui::Language::kEnglish, title), segments);
}

void DrawChoices(const Look& look, const ui::Context& context, ui::DrawLog* log,
                 ui::Commands* commands) {
  // Languages are written in themselves.
  const int language = Choose(look, context, Text::kMenuLanguage,
                              {{"English", "中文"}, static_cast<int>(context.language)}, log);
  if (language >= 0) commands->push_back(ui::SetLanguage{static_cast<ui::Language>(language)});
  const int theme =
      Choose(look, context, Text::kMenuTheme,
             {{Tr(context.language, Text::kMenuDark), Tr(context.language, Text::kMenuLight)},
              static_cast<int>(context.theme_name)},
             log);
  if (theme >= 0) commands->push_back(ui::SetTheme{static_cast<ui::ThemeName>(theme)});
  const std::string percent = fmt::format("{:.0f} %", std::round(context.scale * 100));
  const int size = Choose(look, context, Text::kMenuSize, {{"A −", percent, "A +"}}, log);
  if (size == 0) commands->push_back(ui::SetScale{context.scale / ui::kScaleStep});
  if (size == 1) commands->push_back(ui::SetScale{0});
  if (size == 2) commands->push_back(ui::SetScale{context.scale * ui::kScaleStep});
}

void DrawMenu(const Look& look, const ui::Context& context, ui::DrawLog* log,
              ui::Commands* commands) {
  DrawChoices(look, context, log, commands);
  widgets::Gap(look, 6);
  const auto row = [&](Text title, const char* key, const ui::Command& command) {
    const char* text = Tr(context.language, title);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const bool clicked = widgets::MenuRow(look, text, key);
    log->Text(std::string("row:") + Tr(ui::Language::kEnglish, title), text,
              widgets::ToBox(at, ImGui::GetItemRectMax()));
    if (!clicked) return;
    commands->push_back(ui::ShowOverlay{});
    commands->push_back(command);
  };
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(1)));
  row(Text::kCommandChanges, "C", ui::ShowOverlay{ui::Overlay::kChanges});
  row(Text::kCommandCopyLink, "Ctrl+Shift+C", ui::CopyLink{});
  row(Text::kCommandAddBookmark, "B", ui::AddBookmark{});
  row(Text::kCommandSaveTable, "Ctrl+E", ui::SaveTable{});
  row(Text::kCommandSavePng, "Ctrl+S", ui::SavePicture{});
  row(Text::kCommandPalette, "Ctrl+Shift+P", ui::ShowOverlay{ui::Overlay::kPalette});
  row(Text::kCommandKeys, "?", ui::ShowOverlay{ui::Overlay::kKeys});
  row(Text::kCommandHelp, "F1", ui::ShowOverlay{ui::Overlay::kHelp});
  ImGui::PopStyleVar();
}

void DrawChange(const Look& look, const ui::Context& context, const timeline::Change& change,
                ui::DrawLog* log, ui::Commands* commands) {
  const std::string text = timeline::ChangeLabel(change.markers);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::PushID(change.step);
  if (widgets::MenuRow(look, text.c_str(), TrFormat(context.language, Text::kStepN, change.step))) {
    commands->push_back(ui::ShowOverlay{});
    commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
    commands->push_back(ui::ShowStep{change.step});
  }
  ImGui::PopID();
  log->Text("change:" + std::to_string(change.step), text,
            widgets::ToBox(at, ImGui::GetItemRectMax()));
}

void DrawChanges(const Look& look, const ui::Context& context, ui::DrawLog* log,
                 ui::Commands* commands) {
  widgets::Heading(look, Tr(context.language, Text::kChangesTitle));
  std::vector<timeline::Change> changes;
  if (context.snapshot) changes = timeline::ChangesOf(*context.snapshot);
  if (changes.empty()) {
    const char* none = Tr(context.language, Text::kChangesNone);
    log->Text("none", none, widgets::Paragraph(look, widgets::DimOf(look), none));
    return;
  }
  const float rows = static_cast<float>(std::min(changes.size(), kMostChangeRows));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
  if (ImGui::BeginChild("rows", {0, rows * look.Px(kChangeRowHeight)},
                        ImGuiChildFlags_NavFlattened)) {
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(changes.size()), look.Px(kChangeRowHeight));
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        DrawChange(look, context, changes[static_cast<size_t>(i)], log, commands);
      }
    }
  }
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

void DrawKey(const Look& look, const char* key, const char* what, ui::DrawLog* log) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  widgets::TextStyle style = widgets::MonoOf(look);
  style.color = look.theme.ink.text;
  widgets::DrawText(look, style, at, key);
  ImGui::SetCursorScreenPos({at.x + look.Px(kKeyColumn), at.y});
  log->Text(std::string("key:") + key, what, widgets::Paragraph(look, widgets::DimOf(look), what));
  widgets::Gap(look, 2);
}

void DrawKeys(const Look& look, const ui::Context& context, ui::DrawLog* log) {
  widgets::Heading(look, Tr(context.language, Text::kKeysTitle));
  widgets::Gap(look, 4);
  for (const ui::AxisKey& key : ui::AxisKeys()) {
    DrawKey(look, Tr(context.language, key.key), Tr(context.language, key.what), log);
  }
  for (const ui::Action& action : ui::AllActions()) {
    if (action.chord == 0) continue;
    DrawKey(look, action.key_name, Tr(context.language, action.title), log);
  }
}

// Escape, Enter and a click elsewhere let it go on.
void DrawStopQuestion(const Look& look, const ui::Context& context, ui::DrawLog* log,
                      ui::Commands* commands) {
  const char* title = Tr(context.language, Text::kStopQuestion);
  log->Text("title", title, widgets::Heading(look, title));
  widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kStopTip));
  widgets::Gap(look, 6);
  const bool stops = widgets::Button(look, "stop", Tr(context.language, Text::kCommandStop));
  ImGui::SameLine(0, look.Px(ui::kGrid));
  const bool goes_on = widgets::Button(look, "cancel", Tr(context.language, Text::kCancel),
                                       widgets::Emphasis::kPrimary);
  if (stops) commands->push_back(ui::DoAction{config::Action::kStop});
  // The training may end by itself meanwhile.
  const bool over = !ui::CanSteer(context);
  if (stops || goes_on || over || widgets::PressesEnter()) {
    commands->push_back(ui::ShowOverlay{});
  }
}

void Choose(const ui::PaletteEntry& entry, ui::Commands* commands) {
  commands->push_back(ui::ShowOverlay{});
  commands->insert(commands->end(), entry.commands.begin(), entry.commands.end());
}

// "12.5s", "step=3+4.2ms": a time, not a place of a link.
bool IsMoment(const std::string& typed) {
  const bool is_time = !typed.empty() && typed[0] >= '0' && typed[0] <= '9';
  return (is_time || (typed.starts_with("step=") && Contains(typed, "+"))) &&
         !Contains(typed, "#") && !Contains(typed, "&");
}

// The moment in the middle of a view that is as wide as it was, but of a few steps at most.
ui::SetView ViewAround(const ui::Context& context, int64_t time_ns) {
  constexpr int64_t kMostSteps = 3;
  int64_t width_ns = context.view.end_ns - context.view.start_ns;
  const query::Snapshot& snapshot = *context.snapshot;
  int32_t step = std::max(analysis::FinishedStepAt(snapshot, time_ns), 0);
  // One that is not loaded takes about as long as the first of those that are.
  if (snapshot.part && !snapshot.part->Contains(step)) {
    step = static_cast<int32_t>(snapshot.part->first_step);
  }
  const auto times = analysis::TimesOfStep(snapshot, step);
  if (times.ok()) {
    width_ns = std::min(width_ns, kMostSteps * (times->end_ns - times->start_ns));
  }
  return {time_ns - width_ns / 2, time_ns + width_ns / 2};
}

// GoTo*(): have the view lead there; else say what is wrong.

std::string GoToStep(const ui::Context& context, int32_t step, ui::Commands* commands) {
  const query::Snapshot* snapshot = context.snapshot.get();
  if (snapshot != nullptr && timeline::FindStep(*snapshot, step)) {
    commands->push_back(ui::ShowStep{step});
    commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
    return {};
  }
  if (snapshot != nullptr && (snapshot->loading || snapshot->is_behind ||
                              timeline::StepInOtherPart(*snapshot, {.step = step}))) {
    commands->push_back(ui::GoToLink{{.step = step}});
    return {};
  }
  return TrFormat(context.language, Text::kGoToNoSuchStep, step);
}

// `typed`: IsMoment().
std::string GoToMoment(const ui::Context& context, const std::string& typed,
                       ui::Commands* commands) {
  const query::Snapshot& snapshot = *context.snapshot;
  const Result<int64_t> moment = analysis::ParseMoment(snapshot, typed);
  // While a large run loads, few rows are there, and when it began is not known to the nanosecond:
  // what is told from there waits, and of a step that is not read the step.
  const std::optional<int32_t> of_step = analysis::StepOfMoment(typed);
  if (!moment.ok()) {
    if (!snapshot.loading || !of_step) {
      return TrFormat(context.language, Text::kGoToNoTime, typed);
    }
    commands->push_back(ui::GoToLink{{.step = *of_step}});
    return {};
  }
  const ui::SetView view = ViewAround(context, *moment);
  const bool is_elsewhere =
      (snapshot.loading && !of_step) || *moment < snapshot.start_ns || *moment > snapshot.end_ns;
  if (is_elsewhere) {
    commands->push_back(ui::GoToLink{timeline::LinkOfTimes(snapshot, view.start_ns, view.end_ns)});
  } else {
    commands->push_back(view);
    commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
  }
  return {};
}

// Where a link leads, of this run or with its own.
std::string GoToPlace(const ui::Context& context, const std::string& typed,
                      ui::Commands* commands) {
  if (typed.empty()) return Tr(context.language, Text::kGoToEmpty);
  if (Contains(typed, "#")) {
    const auto run = ui::ParseLinkedRun(typed);
    if (const auto* error = std::get_if<ui::LinkError>(&run)) {
      return LinkErrorText(context.language, *error);
    }
    commands->push_back(ui::OpenRun{typed});
    return {};
  }
  if (!Contains(typed, "=")) return TrFormat(context.language, Text::kGoToNoPlace, typed);
  const auto link = ui::ParseLink(typed);
  if (const auto* error = std::get_if<ui::LinkError>(&link)) {
    return LinkErrorText(context.language, *error);
  }
  commands->push_back(ui::GoToLink{std::get<ui::Link>(link)});
  return {};
}

}  // namespace

void Overlays::DrawMatches(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const std::vector<ui::PaletteEntry> entries = ui::PaletteEntries(context, typed_);
  const int count = static_cast<int>(entries.size());
  const int before = marked_;
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++marked_;
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --marked_;
  if (ImGui::IsKeyPressed(ImGuiKey_PageDown)) marked_ += kPaletteRows;
  if (ImGui::IsKeyPressed(ImGuiKey_PageUp)) marked_ -= kPaletteRows;
  marked_ = std::clamp(marked_, 0, std::max(count - 1, 0));
  if (count == 0) {
    const char* none = Tr(context.language, Text::kPaletteNothing);
    log->Text("none", none, widgets::Paragraph(look, widgets::DimOf(look), none));
    return;
  }
  const bool enter = widgets::PressesEnter();
  for (int i = 0; i < count; ++i) {
    const ui::PaletteEntry& entry = entries[static_cast<size_t>(i)];
    const bool marked = i == marked_;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::PushID(i);                                 // titles of keys may be those of commands
    ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);  // the field keeps the keyboard
    const bool clicked = widgets::MenuRow(look, entry.title.c_str(), entry.key, marked);
    ImGui::PopItemFlag();
    ImGui::PopID();
    if (marked && marked_ != before) ImGui::SetScrollHereY(0.5F);
    log->Text(fmt::format("{}:{}", marked ? "marked" : "entry", entry.title), entry.key,
              widgets::ToBox(at, ImGui::GetItemRectMax()));
    if (clicked || (marked && enter)) Choose(entry, commands);
  }
}

void Overlays::DrawPalette(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  if (widgets::TextField(look, "##query", &typed_,
                         {.hint = Tr(context.language, Text::kPaletteHint)})) {
    marked_ = 0;
  }
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(2)));
  if (ImGui::BeginChild("matches")) DrawMatches(context, log, commands);
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

// Leaves the overlay for what was typed; else what is wrong is in error_.
void Overlays::GoTo(const ui::Context& context, ui::Commands* commands) {
  const std::string typed(Trim(typed_));
  if (const std::optional<int32_t> step = analysis::ParseStep(typed)) {
    error_ = GoToStep(context, *step, commands);
  } else if (context.snapshot != nullptr && IsMoment(typed)) {
    error_ = GoToMoment(context, typed, commands);
  } else {
    error_ = GoToPlace(context, typed, commands);
  }
  if (!error_.empty()) return;
  commands->push_back(ui::DismissNotice{});  // perhaps of a place that was not there
  commands->push_back(ui::ShowOverlay{});
}

void Overlays::DrawGoTo(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  auto steps =
      context.snapshot == nullptr ? std::nullopt : timeline::RecordedSteps(*context.snapshot);
  if (steps && context.snapshot->part) {
    const query::RunPart& part = *context.snapshot->part;
    steps = {static_cast<int32_t>(part.first_of_run), static_cast<int32_t>(part.last_of_run)};
  }
  const char* title = Tr(context.language, Text::kGoToTitle);
  log->Text("title", title, widgets::Heading(look, title));
  if (widgets::TextField(look, "##step", &typed_,
                         {.hint = Tr(context.language, Text::kGoToHint),
                          .invalid = !error_.empty(),
                          .mono = true})) {
    error_.clear();
  }
  if (selects_ && widgets::SelectFieldText()) selects_ = false;
  if (widgets::PressesEnter()) {
    GoTo(context, commands);
    selects_ = !error_.empty();                     // to be mended, or replaced
    if (selects_) ImGui::SetKeyboardFocusHere(-1);  // Enter left the field
  }
  if (!error_.empty()) {
    widgets::TextStyle style = widgets::DimOf(look);
    style.color = look.theme.state.bad;
    log->Text("error", error_, widgets::Paragraph(look, style, error_));
  }
  const std::string range =
      steps ? TrFormat(context.language, Text::kGoToRange, steps->first, steps->second)
            : Tr(context.language, Text::kGoToNoSteps);
  log->Text("range", range, widgets::Paragraph(look, widgets::DimOf(look), range));
}

void Overlays::DrawContent(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  switch (context.overlay) {
    case ui::Overlay::kNone:
      return;
    case ui::Overlay::kMenu:
      return DrawMenu(look, context, log, commands);
    case ui::Overlay::kChanges:
      return DrawChanges(look, context, log, commands);
    case ui::Overlay::kPalette:
      return DrawPalette(context, log, commands);
    case ui::Overlay::kKeys:
      return DrawKeys(look, context, log);
    case ui::Overlay::kBookmark:
      return DrawBookmarkForm(context, &typed_, log, commands);
    case ui::Overlay::kGoTo:
      return DrawGoTo(context, log, commands);
    case ui::Overlay::kHelp:
      return DrawHelp(look, context, log);
    case ui::Overlay::kStopQuestion:
      return DrawStopQuestion(look, context, log, commands);
  }
}

void Overlays::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay == ui::Overlay::kNone) return;
  const Look look = widgets::LookOf(context);
  const OverlayFrame frame = FrameOf(look, context.overlay);
  const widgets::OverlayWindow window(look, fmt::format("##{}", frame.id).c_str(), frame.place);
  log->SetPanel(frame.id);
  if (ImGui::IsWindowAppearing()) {
    typed_.clear();
    selects_ = false;
    marked_ = 0;
    error_.clear();
    if (TakesText(context.overlay)) ImGui::SetKeyboardFocusHere();
  }
  DrawContent(context, log, commands);
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
