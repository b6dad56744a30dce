#include "ui/panels/log/log_panel.h"

#include "ui/panels/log/health.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

constexpr float kHealthWidth = 380;
constexpr float kMessagesWidth = 300;  // where less is left, they stand under the health

// Wrapped at the right edge; those out of sight only take their height.
void DrawLines(const std::vector<std::string>& lines, ui::DrawLog* log) {
  const float width = widgets::ContentWidth();
  const float widest_letter = ImGui::CalcTextSize("M").x;  // in the mono font that is current
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const float top = ImGui::GetScrollY();
  const float bottom = top + ImGui::GetWindowHeight();
  const float begin = ImGui::GetCursorPosY();
  float y = begin;
  ImGui::PushTextWrapPos(0);
  for (const std::string& line : lines) {
    const bool one_row = static_cast<float>(line.size()) * widest_letter <= width;
    const float height = one_row ? ImGui::GetTextLineHeight()
                                 : ImGui::CalcTextSize(line.c_str(), nullptr, false, width).y;
    if (y + height >= top && y <= bottom) {
      ImGui::SetCursorPosY(y);
      ImGui::TextUnformatted(line.c_str());
      log->Text("line", line, widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
    }
    y += height + gap;
  }
  ImGui::PopTextWrapPos();
  ImGui::SetCursorPosY(begin);
  ImGui::Dummy({0, y - begin});
}

void DrawMessages(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  widgets::Heading(look, Tr(context.language, Text::kLogMessages));
  if (!ImGui::BeginChild("messages")) {
    ImGui::EndChild();
    return;
  }
  if (context.log.empty()) {
    widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kLogEmpty));
  }
  ImGui::PushFont(look.fonts.mono, ui::kMonoSize);
  ImGui::PushStyleColor(ImGuiCol_Text, look.theme.ink.dim);
  DrawLines(context.log, log);
  ImGui::PopStyleColor();
  ImGui::PopFont();
  // Stays at the newest message unless the user scrolled up.
  if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1) ImGui::SetScrollHereY(1);
  ImGui::EndChild();
}

}  // namespace

void LogPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* /*commands*/) {
  const widgets::Look look = widgets::LookOf(context);
  widgets::Gap(look, 4);
  const bool beside = widgets::ContentWidth() >= look.Px(kHealthWidth + kMessagesWidth);
  const ImVec2 health =
      beside ? ImVec2(look.Px(kHealthWidth), 0) : ImVec2(0, ImGui::GetContentRegionAvail().y / 2);
  if (ImGui::BeginChild("health", health)) DrawHealth(look, context, log);
  ImGui::EndChild();
  if (beside) ImGui::SameLine(0, look.Px(24));
  if (ImGui::BeginChild("log")) DrawMessages(look, context, log);
  ImGui::EndChild();
}

}  // namespace shardscope::panels
