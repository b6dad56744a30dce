#include "ui/panels/palette/palette_panel.h"

#include <algorithm>
#include <string>

#include "ui/actions.h"
#include "ui/text.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/look.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

constexpr float kWidth = 460;
constexpr float kHeight = 420;

void Run(const ui::Context& context, const ui::Action& action, ui::Commands* commands) {
  commands->push_back(ui::ShowOverlay{});
  for (ui::Command& command : action.make(context)) commands->push_back(std::move(command));
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
    const char* title = ui::Tr(context.language, action.title);
    if (widgets::MenuRow(look, title, action.key_name, marked) || (marked && enter)) {
      Run(context, action, commands);
    }
  }
}

void PalettePanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay != ui::Overlay::kPalette) return;
  const widgets::Look look = widgets::LookOf(context);
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const widgets::OverlayWindow window(
      look, "##palette",
      {.at = {viewport->GetCenter().x, viewport->Pos.y + look.Px(80)},
       .pivot = {0.5f, 0},
       .width = kWidth,
       .height = kHeight});
  log->SetPanel("palette");
  if (ImGui::IsWindowAppearing()) {
    query_.clear();
    marked_ = 0;
    ImGui::SetKeyboardFocusHere();
  }
  widgets::TextField(look, "##query", &query_,
                     {.hint = ui::Tr(context.language, ui::Text::kPaletteHint)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(2)));
  if (ImGui::BeginChild("matches")) DrawMatches(context, commands);
  ImGui::EndChild();
  ImGui::PopStyleVar();
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
