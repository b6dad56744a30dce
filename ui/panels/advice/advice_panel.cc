#include "ui/panels/advice/advice_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/units.h"
#include "ui/advice.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/scope_chip.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/verdict.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;
using widgets::Look;

// A word in the accent's colour that brings a place into view.
bool PlaceLink(const Look& look, const char* id, const std::string& text, ui::Box* box) {
  widgets::TextStyle style = widgets::TextOf(look);
  style.color = look.theme.state.accent;
  const ImVec2 size = widgets::TextSize(look, style, text);
  const float width = std::min(size.x, widgets::ContentWidth());
  const bool clicked = widgets::ClickArea(id, {std::max(width, 1.0F), size.y});
  const ImVec2 at = ImGui::GetItemRectMin();
  *box = widgets::DrawTextClipped(look, style, at, width, text);
  if (ImGui::IsItemHovered() || ImGui::IsItemFocused()) {
    ImGui::GetWindowDrawList()->AddLine({box->x0, box->y1}, {box->x1, box->y1}, style.color);
  }
  return clicked;
}

}  // namespace

struct AdvicePanel::Frame : PanelFrame {
  const analysis::Explanation& explanation() const { return context.figures->explanation; }
};

void AdvicePanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Frame frame{{context, widgets::LookOf(context), log, commands}};
  if (context.snapshot == nullptr || context.figures == nullptr || context.figures->scope.empty()) {
    const Text why = context.snapshot == nullptr      ? Text::kAdviceEmpty
                     : ui::IsRecordedProgram(context) ? Text::kAdviceRecorded
                                                      : Text::kOverlapNoSteps;
    return frame.Empty(why);
  }
  if (ImGui::BeginChild("cards", {}, ImGuiChildFlags_NavFlattened)) DrawCards(frame);
  ImGui::EndChild();
}

void AdvicePanel::DrawCards(const Frame& frame) {
  const ui::Context& context = frame.context;
  const std::string line = ui::VerdictLine(context.language, frame.explanation().verdict);
  frame.Say("verdict", widgets::BoldOf(frame.look), line);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ui::Box scope = DrawScopeChip(context, at, frame.log, frame.commands);
  ImGui::SetCursorScreenPos({at.x, scope.y1});
  widgets::Gap(frame.look, 4);
  DrawUndo(frame);
  const std::vector<analysis::Advice>& advice = frame.explanation().advice;
  for (size_t i = 0; i < advice.size(); ++i) DrawCard(frame, i);
  if (!advice.empty()) return;
  const std::string none = ui::NoAdvice(context.language, frame.explanation().verdict);
  frame.Say("none", widgets::DimOf(frame.look), none);
}

void AdvicePanel::DrawCard(const Frame& frame, size_t at) {
  const Look& look = frame.look;
  const ui::Language language = frame.context.language;
  const analysis::Explanation& explanation = frame.explanation();
  const analysis::Advice& advice = explanation.advice[at];
  const widgets::Card card(look, fmt::format("advice{}", at).c_str());
  const std::string title = ui::AdviceTitle(language, advice);
  frame.log->Text(fmt::format("title:{}", at), title,
                  widgets::Paragraph(look, widgets::BoldOf(look), title));
  const double step_ns = explanation.losses.step_ns;
  const std::string saves =
      TrFormat(language, Text::kAdviceSaves, ui::FormatDuration(advice.saving_ns_per_step),
               FormatPercent(step_ns > 0 ? advice.saving_ns_per_step / step_ns : 0));
  frame.log->Real(fmt::format("saving:{}", at), saves, advice.saving_ns_per_step, "ns",
                  widgets::Paragraph(look, widgets::TextOf(look), saves));
  const std::string remedy = ui::AdviceRemedy(language, advice);
  frame.log->Text(fmt::format("remedy:{}", at), remedy,
                  widgets::Paragraph(look, widgets::DimOf(look), remedy));
  DrawPlaces(frame, at);
  DrawKnobs(frame, at);
}

void AdvicePanel::DrawPlaces(const Frame& frame, size_t at) {
  const ui::Language language = frame.context.language;
  const auto places = ui::PlacesOf(language, frame.explanation(), frame.explanation().advice[at]);
  if (places.empty()) return;
  widgets::FaintHeading(frame.look, frame.Tr(Text::kAdviceSeen));
  for (size_t i = 0; i < places.size(); ++i) {
    ui::Box box;
    const bool clicked =
        PlaceLink(frame.look, fmt::format("place{}", i).c_str(), places[i].text, &box);
    frame.Tip(places[i].text, frame.Tr(Text::kAdviceJumpTip));
    frame.log->Text(fmt::format("place:{}:{}", at, i), places[i].text, box);
    if (!clicked) continue;
    frame.commands->insert(frame.commands->end(), places[i].jump.begin(), places[i].jump.end());
  }
}

void AdvicePanel::DrawKnobs(const Frame& frame, size_t at) {
  const ui::Context& context = frame.context;
  const auto knobs = ui::AdvisedKnobs(context, frame.explanation().advice[at]);
  if (knobs.empty()) return;
  widgets::Gap(frame.look, 4);
  for (const ui::AdvisedKnob& knob : knobs) {
    const std::string label = ui::KeyLabel(context.language, knob.key);
    if (const auto pending = ui::PendingValue(context, knob.key)) {
      const std::string text = TrFormat(context.language, Text::kAdvicePending, label, *pending);
      frame.Say("pending:" + knob.key, widgets::DimOf(frame.look), text);
      continue;
    }
    const bool turns = ui::CanSteer(context);
    const std::string text =
        turns ? TrFormat(context.language, Text::kAdviceTurn, label, knob.from, knob.to)
              : TrFormat(context.language, Text::kAdviceInNewRun, label, knob.to);
    const bool clicked = turns ? widgets::Button(frame.look, knob.key.c_str(), text)
                               : widgets::LinkText(frame.look, knob.key.c_str(), text);
    frame.NoteItem("knob:" + knob.key, text);
    if (turns) frame.Tip(text, frame.Tr(Text::kAdviceTurnTip));
    if (!clicked) continue;
    if (!turns) {
      frame.commands->push_back(ui::ShowKey{.key = knob.key, .in_form = true});
      continue;
    }
    frame.commands->push_back(ui::SetKnob{knob.key, knob.to});
  }
}

void AdvicePanel::DrawUndo(const Frame& frame) {
  const ui::Context& context = frame.context;
  const std::optional<ui::TurnedKnob>& last = context.control.undoable;
  if (!ui::CanSteer(context) || !last) return;
  const std::string text = UndoText(context.language, last->key, last->to, last->from);
  const bool clicked = widgets::Button(frame.look, "undo", text);
  frame.NoteItem("undo", text);
  if (clicked) frame.commands->push_back(ui::UndoKnob{});
}

}  // namespace shardscope::panels
