#include "ui/panels/palette/palette_panel.h"

#include <algorithm>
#include <string>

#include "ui/actions.h"
#include "ui/text.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

constexpr float kWidth = 460;
constexpr float kRowHeight = 26;

void Run(const ui::Context& context, const ui::Action& action, ui::Commands* commands) {
  commands->push_back(ui::ShowPalette{false});
  for (ui::Command& command : action.make(context)) {
    if (!std::holds_alternative<ui::ShowPalette>(command)) commands->push_back(std::move(command));
  }
}

// True when the row was clicked.
bool DrawRow(const widgets::Look& look, const ui::Context& context, const ui::Action& action,
             bool marked) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(widgets::ContentWidth(), look.Px(kRowHeight));
  const char* title = ui::Tr(context.language, action.title);
  const bool clicked = ImGui::InvisibleButton(title, size);
  if (marked || ImGui::IsItemHovered()) {
    ImGui::GetWindowDrawList()->AddRectFilled(
        at, {at.x + size.x, at.y + size.y}, look.theme.surface.chosen, look.Px(ui::kSmallRounding));
  }
  const float pad = look.Px(8);
  widgets::DrawText(look, widgets::TextOf(look), {at.x + pad, at.y + look.Px(6)}, title);
  widgets::DrawTextRight(look, widgets::MonoOf(look), {at.x + size.x - pad, at.y + look.Px(6)},
                         action.key_name);
  if (marked && ImGui::IsWindowAppearing()) ImGui::SetScrollHereY();
  return clicked;
}

}  // namespace

void PalettePanel::DrawMatches(const ui::Context& context, ui::Commands* commands) {
  const widgets::Look look = widgets::LookOf(context);
  const auto matching = ui::MatchingActions(query_);
  const int count = static_cast<int>(matching.size());
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ++marked_;
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) --marked_;
  marked_ = std::clamp(marked_, 0, std::max(count - 1, 0));
  if (count == 0) {
    widgets::Paragraph(look, widgets::DimOf(look),
                       ui::Tr(context.language, ui::Text::kPaletteNothing));
    return;
  }
  const bool enter = ImGui::IsKeyPressed(ImGuiKey_Enter);
  for (int i = 0; i < count; ++i) {
    const ui::Action& action = *matching[static_cast<size_t>(i)];
    const bool marked = i == marked_;
    if (DrawRow(look, context, action, marked) || (marked && enter)) {
      Run(context, action, commands);
    }
  }
}

void PalettePanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (!context.show_palette) return;
  const widgets::Look look = widgets::LookOf(context);
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({viewport->GetCenter().x, viewport->Pos.y + look.Px(80)},
                          ImGuiCond_Always, {0.5f, 0});
  ImGui::SetNextWindowSize({look.Px(kWidth), look.Px(420)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border, look.theme.surface.line);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, look.Px(1));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(2)));
  ImGui::Begin("##palette", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  log->SetPanel("palette");
  if (ImGui::IsWindowAppearing()) {
    query_.clear();
    marked_ = 0;
    ImGui::SetKeyboardFocusHere();
  }
  widgets::TextField(look, "##query", &query_,
                     {.hint = ui::Tr(context.language, ui::Text::kPaletteHint)});
  if (ImGui::BeginChild("matches")) DrawMatches(context, commands);
  ImGui::EndChild();
  const bool clicked_elsewhere = ImGui::IsMouseClicked(ImGuiMouseButton_Left) &&
                                 !ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows);
  if (clicked_elsewhere || ImGui::IsKeyPressed(ImGuiKey_Escape)) {
    commands->push_back(ui::ShowPalette{false});
  }
  ImGui::End();
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor(2);
}

}  // namespace shardscope::panels
