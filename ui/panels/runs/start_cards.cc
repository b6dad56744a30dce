#include "ui/panels/runs/start_cards.h"

#include <imgui.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "ui/theme.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using widgets::Look;

constexpr float kLeastCardWidth = 180;
constexpr float kCardHeight = 118;
constexpr float kCardGap = 8;
constexpr float kCardTextPadding = 12;

constexpr StartCard kStartCards[] = {
    {"prefetch_lesson", Text::kCardPrefetch, Text::kCardPrefetchWhat},
    {"memory_squeeze", Text::kCardMemory, Text::kCardMemoryWhat},
    {"hybrid_slow_link", Text::kCardHybrid, Text::kCardHybridWhat},
    {"pipeline_bubble", Text::kCardPipeline, Text::kCardPipelineWhat},
    {"ddp_against_fsdp", Text::kCardDdp, Text::kCardDdpWhat},
    {"", Text::kCardTrace, Text::kCardTraceWhat},
};

// Why it cannot be begun now; null: it can.
const char* HindranceOf(const ui::Context& context, const StartCard& card) {
  if (*card.preset == '\0') return nullptr;
  const ui::Language language = context.language;
  if (context.places.trainer.empty()) return Tr(language, Text::kRunsNoTrainer);
  if (PresetFileOf(card, context.places).empty()) return Tr(language, Text::kCardNoPreset);
  return context.starting.empty() ? nullptr : Tr(language, Text::kCardStarting);
}

// true: chosen.
bool DrawStartCard(const ui::Context& context, const Look& look, const StartCard& card, ImVec2 size,
                   ui::DrawLog* log) {
  const char* title = Tr(context.language, card.title);
  const char* hindrance = HindranceOf(context, card);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const std::string id = *card.preset == '\0' ? "trace" : card.preset;
  ImGui::BeginDisabled(hindrance != nullptr);
  const bool clicked = widgets::ClickArea(("card:" + id).c_str(), size);
  ImGui::EndDisabled();
  const bool lit = hindrance == nullptr && (ImGui::IsItemHovered() || ImGui::IsItemFocused());
  if (hindrance != nullptr) widgets::ItemTooltip(look, title, hindrance);
  const ImVec2 end(at.x + size.x, at.y + size.y);
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float rounding = look.Px(ui::kRounding);
  list->AddRectFilled(at, end, lit ? look.theme.surface.chosen : look.theme.surface.raised,
                      rounding);
  list->AddRect(at, end, lit ? look.theme.state.accent : look.theme.surface.line, rounding,
                look.Px(1));
  const float pad = look.Px(kCardTextPadding);
  list->PushClipRect(at, end, true);
  const widgets::TextStyle bold = widgets::BoldOf(look);
  const ui::Box box =
      widgets::DrawTextClipped(look, bold, {at.x + pad, at.y + pad}, size.x - 2 * pad, title);
  const widgets::TextStyle dim = widgets::DimOf(look);
  const ImVec2 under(at.x + pad, box.y1 + look.Px(4));
  const std::string lines =
      widgets::WithLineBreaks(look, dim, Tr(context.language, card.what), size.x - 2 * pad);
  list->AddText(dim.font, look.Px(dim.size), under, dim.color, lines.c_str(), nullptr,
                size.x - 2 * pad);
  list->PopClipRect();
  log->Text("card_what:" + id, lines, {under.x, under.y, end.x - pad, end.y - pad});
  log->Text("card:" + id, title, widgets::ToBox(at, end));
  return clicked;
}

}  // namespace

std::span<const StartCard> StartCards() { return kStartCards; }

std::string PresetFileOf(const StartCard& card, const ui::Places& places) {
  const auto found = std::ranges::find_if(places.presets, [&](const std::string& path) {
    return std::filesystem::path(path).stem() == card.preset;
  });
  return found == places.presets.end() ? "" : *found;
}

const StartCard* DrawStartCards(const ui::Context& context, const Look& look, ui::DrawLog* log) {
  const float gap = look.Px(kCardGap);
  const float width = widgets::ContentWidth();
  const int in_a_row =
      std::clamp(static_cast<int>((width + gap) / (look.Px(kLeastCardWidth) + gap)), 1, 3);
  const ImVec2 size((width - static_cast<float>(in_a_row - 1) * gap) / static_cast<float>(in_a_row),
                    look.Px(kCardHeight));
  const StartCard* chosen = nullptr;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
  int at = 0;
  for (const StartCard& card : StartCards()) {
    if (at++ % in_a_row != 0) ImGui::SameLine();
    if (DrawStartCard(context, look, card, size, log)) chosen = &card;
  }
  ImGui::PopStyleVar();
  return chosen;
}

}  // namespace shardscope::panels
