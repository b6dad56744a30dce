#include "ui/panels/log/log_panel.h"

#include "ui/panels/log/health.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

constexpr float kHealthWidth = 380;

void DrawMessages(const widgets::Look& look, const ui::Context& context) {
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
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(context.log.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      ImGui::TextUnformatted(context.log[static_cast<size_t>(i)].c_str());
    }
  }
  ImGui::PopStyleColor();
  ImGui::PopFont();
  // Stays at the newest message unless the user scrolled up.
  if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1) ImGui::SetScrollHereY(1);
  ImGui::EndChild();
}

}  // namespace

void DrawLogPanel(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  (void)commands;
  const widgets::Look look = widgets::LookOf(context);
  widgets::Gap(look, 4);
  if (ImGui::BeginChild("health", {look.Px(kHealthWidth), 0})) DrawHealth(look, context, log);
  ImGui::EndChild();
  ImGui::SameLine(0, look.Px(24));
  if (ImGui::BeginChild("log")) DrawMessages(look, context);
  ImGui::EndChild();
}

}  // namespace shardscope::panels
