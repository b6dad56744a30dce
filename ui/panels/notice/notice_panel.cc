#include "ui/panels/notice/notice_panel.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>

#include "ui/panel_ids.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

constexpr float kNoticePadding = 10;
constexpr float kMostOfScreen = 0.8F;

}  // namespace

void DrawNotice(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.notice.text.empty()) return;
  const widgets::Look look = widgets::LookOf(context);
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  widgets::TextStyle style = widgets::TextOf(look);
  if (context.notice.is_error) style.color = look.theme.state.bad;
  const float padding = look.Px(kNoticePadding);
  const float wrap = viewport->Size.x * kMostOfScreen - 2 * padding;
  const float width =
      std::min(widgets::TextSize(look, style, context.notice.text).x + 1, wrap) + 2 * padding;
  ImGui::SetNextWindowPos({viewport->GetCenter().x, viewport->Pos.y + viewport->Size.y - padding},
                          ImGuiCond_Always, {0.5F, 1});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {padding, padding * 0.8F});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, look.Px(1));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border,
                        context.notice.is_error ? look.theme.state.bad : look.theme.surface.line);
  ImGui::Begin(widgets::kNoticeWindow, nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNavFocus);
  ImGui::BringWindowToDisplayFront(ImGui::GetCurrentWindow());
  log->SetPanel(ui::panel_ids::kNotice);
  log->Text(context.notice.is_error ? "error" : "done", context.notice.text,
            widgets::Paragraph(look, style, context.notice.text));
  if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    commands->push_back(ui::DismissNotice{});
  }
  ImGui::End();
  ImGui::PopStyleColor(2);
  ImGui::PopStyleVar(2);
}

}  // namespace shardscope::panels
