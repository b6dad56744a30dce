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

// What one is beside.
struct NeededBytes {
  int64_t now = 0;
  int64_t most = 0;  // of all choices
};

// true: clicked.
bool DrawChoice(const ui::Context& context, const MemoryChoice& choice, const NeededBytes& needed,
                ClickedRow* clicked_row, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const std::string text = footprint::TextOf(choice.settings);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float width = widgets::ContentWidth();
  const float height = look.Px(kChoiceHeight);
  bool clicked = widgets::ClickArea(text.c_str(), {width, height});
  if (clicked && ImGui::GetIO().MouseReleased[ImGuiMouseButton_Left]) {  // else by a key
    clicked = clicked_row->Takes(text, {top.x, top.y, top.x + width, top.y + height});
  }
  ImDrawList* list = ImGui::GetWindowDrawList();
  widgets::ItemGround(look, look.theme.surface.raised);
  const bool turns = choice.is_live && ui::CanSteer(context);
  if (!context.headless) {
    widgets::ItemTooltip(
        look, text, ui::Tr(context.language, turns ? Text::kChoiceTurnTip : Text::kChoiceFormTip));
  }
  const int64_t saved = choice.needed_bytes - needed.now;
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
                    static_cast<float>(std::max<int64_t>(needed.most, 1));
  const float y = top.y + height - look.Px(kChoiceBar + 1);
  list->AddRectFilled({top.x, y}, {top.x + bar, y + look.Px(kChoiceBar)},
                      saved < 0 ? look.theme.state.good : look.theme.ink.faint);
  log->Int("choice:" + text, difference + "\n" + detail, choice.needed_bytes, "B",
           {top.x, top.y, top.x + width, top.y + height});
  return clicked;
}

}  // namespace

void ClickedRow::MouseAt(float x, float y, bool scrolls) {
  const bool is_in = x >= box_.x0 && x < box_.x1 && y >= box_.y0 && y < box_.y1;
  if (scrolls || !is_in) row_.clear();
}

bool ClickedRow::Takes(const std::string& row, const ui::Box& box) {
  if (!row_.empty() && row != row_) return false;
  row_ = row;
  box_ = box;
  return true;
}

void DrawMemoryChoices(const ui::Context& context, const ui::MemoryChoices& choices,
                       ClickedRow* clicked, ui::DrawLog* log, ui::Commands* commands) {
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
  NeededBytes needed{choices.needed_bytes, choices.needed_bytes};
  for (const MemoryChoice& choice : choices.choices) {
    needed.most = std::max(needed.most, choice.needed_bytes);
  }
  const ImGuiIO& io = ImGui::GetIO();
  clicked->MouseAt(io.MousePos.x, io.MousePos.y, io.MouseWheel != 0);
  if (ImGui::BeginChild("choices", {}, ImGuiChildFlags_NavFlattened)) {
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(choices.choices.size()),
                  look.Px(kChoiceHeight) + ImGui::GetStyle().ItemSpacing.y);
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
        const MemoryChoice& choice = choices.choices[static_cast<size_t>(at)];
        if (!DrawChoice(context, choice, needed, clicked, log)) continue;
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
