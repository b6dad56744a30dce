#include "ui/panels/blocks/choices_list.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>

#include "trace/base/signed_text.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::MemoryChoice;
using ui::Text;
using widgets::Look;

constexpr float kChoiceHeight = 38;
constexpr float kChoiceBar = 3;

// true: clicked.
bool DrawChoice(const ui::Context& context, const MemoryChoice& choice, int64_t now_bytes,
                int64_t most_bytes, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const std::string text = footprint::TextOf(choice.settings);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float width = widgets::ContentWidth();
  const float height = look.Px(kChoiceHeight);
  const bool clicked = widgets::ClickArea(text.c_str(), {width, height});
  ImDrawList* list = ImGui::GetWindowDrawList();
  widgets::ItemGround(look, look.theme.surface.raised);
  const bool turns = choice.is_live && ui::CanSteer(context);
  if (!context.headless) {
    widgets::ItemTooltip(
        look, text, ui::Tr(context.language, turns ? Text::kChoiceTurnTip : Text::kChoiceFormTip));
  }
  const int64_t saved = choice.needed_bytes - now_bytes;
  widgets::TextStyle bold = widgets::BoldOf(look);
  if (saved < 0) bold.color = look.theme.state.good;
  const std::string difference = SignedText(static_cast<double>(saved), FormatBytes, "±");
  const ui::Box value =
      widgets::DrawTextRight(look, bold, {top.x + width, top.y + look.Px(2)}, difference);
  widgets::DrawTextClipped(look, widgets::TextOf(look), {top.x, top.y + look.Px(2)},
                           value.x0 - top.x - look.Px(8), text);
  const std::string takes =
      ui::TrFormat(context.language, Text::kChoiceTakes, FormatBytes(choice.needed_bytes),
                   EffectText(context.language, choice));
  const std::string detail =
      turns ? takes + " · " + ui::Tr(context.language, Text::kChoiceTurn) : takes;
  widgets::DrawTextClipped(look, widgets::FaintOf(look), {top.x, top.y + look.Px(17)}, width,
                           detail);
  const float bar = width * static_cast<float>(choice.needed_bytes) /
                    static_cast<float>(std::max<int64_t>(most_bytes, 1));
  const float y = top.y + height - look.Px(kChoiceBar + 1);
  list->AddRectFilled({top.x, y}, {top.x + bar, y + look.Px(kChoiceBar)},
                      saved < 0 ? look.theme.state.good : look.theme.ink.faint);
  log->Int("choice:" + text, difference + "\n" + detail, choice.needed_bytes, "B",
           {top.x, top.y, top.x + width, top.y + height});
  return clicked;
}

}  // namespace

void DrawMemoryChoices(const ui::Context& context, const ui::MemoryChoices& choices,
                       ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  if (!choices.error.empty()) {
    log->Text("choices_error", choices.error,
              widgets::Paragraph(look, widgets::DimOf(look), choices.error));
    return;
  }
  const std::string now =
      ui::TrFormat(context.language, Text::kChoiceNow, FormatBytes(choices.needed_bytes));
  log->Int("needed", now, choices.needed_bytes, "B",
           widgets::Paragraph(look, widgets::TextOf(look), now));
  int64_t most_bytes = choices.needed_bytes;
  for (const MemoryChoice& choice : choices.choices) {
    most_bytes = std::max(most_bytes, choice.needed_bytes);
  }
  if (ImGui::BeginChild("choices", {}, ImGuiChildFlags_NavFlattened)) {
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(choices.choices.size()),
                  look.Px(kChoiceHeight) + ImGui::GetStyle().ItemSpacing.y);
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
        const MemoryChoice& choice = choices.choices[static_cast<size_t>(at)];
        if (!DrawChoice(context, choice, choices.needed_bytes, most_bytes, log)) continue;
        const ui::Commands chosen = Choose(context, choice);
        commands->insert(commands->end(), chosen.begin(), chosen.end());
      }
    }
  }
  ImGui::EndChild();
}

ui::TableMaker TableOfChoices(const std::shared_ptr<const ui::MemoryChoices>& choices) {
  if (choices == nullptr || !choices->error.empty()) return nullptr;
  return [choices] {
    ui::Table table{{"settings", "needed_bytes", "difference_bytes", "results"}, {}};
    for (const MemoryChoice& choice : choices->choices) {
      table.rows.push_back({footprint::TextOf(choice.settings), std::to_string(choice.needed_bytes),
                            std::to_string(choice.needed_bytes - choices->needed_bytes),
                            EffectText(ui::Language::kEnglish, choice)});
    }
    return table;
  };
}

}  // namespace shardscope::panels
