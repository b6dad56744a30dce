#include "ui/widgets/tooltip.h"

#include <string>

namespace shardscope::widgets {

void Tooltip(const Look& look, std::string_view title, std::string_view detail, Color border) {
  ImGui::PushStyleColor(ImGuiCol_PopupBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border, border);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(look.Px(10), look.Px(8)));
  ImGui::PushStyleVar(ImGuiStyleVar_PopupRounding, look.Px(ui::kSmallRounding));
  ImGui::PushStyleVar(ImGuiStyleVar_PopupBorderSize, look.Px(1));
  if (ImGui::BeginTooltip()) {
    ImGui::PushTextWrapPos(look.Px(320));
    ImGui::PushFont(detail.empty() ? look.fonts.text : look.fonts.bold, ui::kTextSize);
    ImGui::PushStyleColor(ImGuiCol_Text, look.theme.ink.text);
    ImGui::TextUnformatted(title.data(), title.data() + title.size());
    ImGui::PopStyleColor();
    ImGui::PopFont();
    if (!detail.empty()) {
      ImGui::PushStyleColor(ImGuiCol_Text, look.theme.ink.dim);
      ImGui::TextUnformatted(detail.data(), detail.data() + detail.size());
      ImGui::PopStyleColor();
    }
    ImGui::PopTextWrapPos();
    if (look.log != nullptr) {
      const ImVec2 at = ImGui::GetWindowPos();
      const ImVec2 size = ImGui::GetWindowSize();
      std::string text(title);
      if (!detail.empty()) text.append("\n").append(detail);
      look.log->Text("tooltip", text, ToBox(at, {at.x + size.x, at.y + size.y}));
    }
    ImGui::EndTooltip();
  }
  ImGui::PopStyleVar(3);
  ImGui::PopStyleColor(2);
}

void ItemTooltip(const Look& look, std::string_view title, std::string_view detail) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled)) {
    return;
  }
  Tooltip(look, title, detail, look.theme.surface.line);
}

}  // namespace shardscope::widgets
