#include "ui/panels/overlays/overlays.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ui/actions.h"
#include "ui/text.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
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
      return {"keys", widgets::InTheMiddle(420)};
    case ui::Overlay::kGoTo:
      return {"go_to", below_top(260, 0)};
    case ui::Overlay::kHelp:
      return {"help", widgets::InTheMiddle(520)};
    case ui::Overlay::kStopQuestion:
      return {"stop_question", widgets::InTheMiddle(360)};
  }
  return {};
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
    if (clicked) commands->push_back(command);
  };
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(1)));
  row(Text::kCommandChanges, "C", ui::ShowOverlay{ui::Overlay::kChanges});
  row(Text::kCommandPalette, "Ctrl+P", ui::ShowOverlay{ui::Overlay::kPalette});
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
    commands->push_back(ui::FocusPanel{"timeline"});
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
  if (ImGui::BeginChild("rows", {0, rows * look.Px(kChangeRowHeight)})) {
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
  const ui::Box box =
      widgets::DrawText(look, widgets::DimOf(look), {at.x + look.Px(kKeyColumn), at.y}, what);
  log->Text(std::string("key:") + key, what, box);
  ImGui::Dummy({widgets::ContentWidth(), look.Px(ui::kTextSize + 2)});
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

void DrawHelp(const Look& look, const ui::Context& context, ui::DrawLog* log) {
  widgets::Heading(look, Tr(context.language, Text::kCommandHelp));
  for (const Text paragraph : {Text::kHelpTimeline, Text::kHelpKnobs, Text::kHelpFindings,
                               Text::kHelpRuns, Text::kHelpMore}) {
    const char* text = Tr(context.language, paragraph);
    log->Text("paragraph", text, widgets::Paragraph(look, widgets::DimOf(look), text));
    widgets::Gap(look, 2);
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
  if (stops || goes_on || over || ImGui::IsKeyPressed(ImGuiKey_Enter, false)) {
    commands->push_back(ui::ShowOverlay{});
  }
}

void Run(const ui::Context& context, const ui::Action& action, ui::Commands* commands) {
  commands->push_back(ui::ShowOverlay{});
  for (ui::Command& command : action.make(context)) commands->push_back(std::move(command));
}

std::optional<int32_t> ParseStep(const std::string& text) {
  int32_t step = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

}  // namespace

void Overlays::DrawMatches(const ui::Context& context, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const auto matching = ui::MatchingActions(typed_);
  const int count = static_cast<int>(matching.size());
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++marked_;
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --marked_;
  marked_ = std::clamp(marked_, 0, std::max(count - 1, 0));
  if (count == 0) {
    widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kPaletteNothing));
    return;
  }
  const bool enter = ImGui::IsKeyPressed(ImGuiKey_Enter);
  for (int i = 0; i < count; ++i) {
    const ui::Action& action = *matching[static_cast<size_t>(i)];
    const bool marked = i == marked_;
    const char* title = Tr(context.language, action.title);
    if (widgets::MenuRow(look, title, action.key_name, marked) || (marked && enter)) {
      Run(context, action, commands);
    }
  }
}

void Overlays::DrawPalette(const ui::Context& context, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  widgets::TextField(look, "##query", &typed_, {.hint = Tr(context.language, Text::kPaletteHint)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(2)));
  if (ImGui::BeginChild("matches")) DrawMatches(context, commands);
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

void Overlays::DrawGoTo(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const auto steps =
      context.snapshot == nullptr ? std::nullopt : timeline::RecordedSteps(*context.snapshot);
  const char* title = Tr(context.language, Text::kGoToTitle);
  log->Text("title", title, widgets::Heading(look, title));
  if (!steps) {
    const char* none = Tr(context.language, Text::kGoToNoSteps);
    log->Text("error", none, widgets::Paragraph(look, widgets::DimOf(look), none));
    return;
  }
  const std::string range =
      TrFormat(context.language, Text::kGoToRange, steps->first, steps->second);
  if (widgets::TextField(look, "##step", &typed_,
                         {.hint = range, .invalid = !error_.empty(), .mono = true})) {
    error_.clear();
  }
  if (ImGui::IsKeyPressed(ImGuiKey_Enter) || ImGui::IsKeyPressed(ImGuiKey_KeypadEnter)) {
    const std::optional<int32_t> step = ParseStep(typed_);
    if (step && timeline::FindStep(*context.snapshot, *step)) {
      commands->push_back(ui::ShowStep{*step});
      commands->push_back(ui::ShowOverlay{});
    } else {
      error_ = TrFormat(context.language, Text::kGoToNoSuchStep, typed_);
      typed_.clear();
      ImGui::SetKeyboardFocusHere(-1);  // Enter left the field
    }
  }
  widgets::TextStyle style = widgets::DimOf(look);
  if (!error_.empty()) {
    style.color = look.theme.state.bad;
    log->Text("error", error_, widgets::Paragraph(look, style, error_));
    style = widgets::DimOf(look);
  }
  log->Text("range", range, widgets::Paragraph(look, style, range));
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
      return DrawPalette(context, commands);
    case ui::Overlay::kKeys:
      return DrawKeys(look, context, log);
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
    marked_ = 0;
    error_.clear();
    const bool takes_text =
        context.overlay == ui::Overlay::kPalette || context.overlay == ui::Overlay::kGoTo;
    if (takes_text) ImGui::SetKeyboardFocusHere();
  }
  DrawContent(context, log, commands);
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
