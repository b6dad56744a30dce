#include "ui/widgets/fields.h"

#include <imgui_stdlib.h>

namespace shardscope::widgets {
namespace {

void PushFieldStyle(const Look& look, bool invalid) {
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(look.Px(8), look.Px(5)));
  ImGui::PushStyleVar(ImGuiStyleVar_FrameRounding, look.Px(ui::kSmallRounding));
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, look.Px(1));
  ImGui::PushStyleColor(ImGuiCol_FrameBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border, invalid ? look.theme.op.exposed : look.theme.surface.line);
}

void PopFieldStyle() {
  ImGui::PopStyleColor(2);
  ImGui::PopStyleVar(3);
}

}  // namespace

bool TextField(const Look& look, const char* id, std::string* text, const Field& field) {
  PushFieldStyle(look, field.invalid);
  ImGui::SetNextItemWidth(field.width > 0 ? field.width : ContentWidth());
  ImGui::PushFont(field.mono ? look.fonts.mono : look.fonts.text,
                  field.mono ? ui::kMonoSize : ui::kTextSize);
  const bool changed = ImGui::InputTextWithHint(id, std::string(field.hint).c_str(), text);
  LogControl(look, "field", id, text->empty() ? field.hint : *text);
  ImGui::PopFont();
  PopFieldStyle();
  return changed;
}

bool Choice(const Look& look, const char* id, const std::vector<std::string>& options, int* chosen,
            float width) {
  PushFieldStyle(look, false);
  ImGui::SetNextItemWidth(width > 0 ? width : ContentWidth());
  const size_t index = static_cast<size_t>(*chosen);
  const char* preview = index < options.size() ? options[index].c_str() : "";
  bool changed = false;
  const bool open = ImGui::BeginCombo(id, preview);
  if (!open) LogControl(look, "choice", id, preview);
  if (open) {
    for (int i = 0; i < static_cast<int>(options.size()); ++i) {
      if (ImGui::Selectable(options[static_cast<size_t>(i)].c_str(), i == *chosen) &&
          i != *chosen) {
        *chosen = i;
        changed = true;
      }
    }
    ImGui::EndCombo();
  }
  PopFieldStyle();
  return changed;
}

}  // namespace shardscope::widgets
