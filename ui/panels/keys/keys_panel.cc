#include "ui/panels/keys/keys_panel.h"

#include "ui/actions.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

constexpr float kWidth = 420;
constexpr float kKeyColumn = 150;

void DrawRow(const widgets::Look& look, const char* key, const char* what, ui::DrawLog* log) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  widgets::TextStyle style = widgets::MonoOf(look);
  style.color = look.theme.ink.text;
  widgets::DrawText(look, style, at, key);
  const ui::Box box =
      widgets::DrawText(look, widgets::DimOf(look), {at.x + look.Px(kKeyColumn), at.y}, what);
  log->Text(std::string("key:") + key, what, box);
  ImGui::Dummy({widgets::ContentWidth(), look.Px(ui::kTextSize + 2)});
}

}  // namespace

void DrawKeys(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (!context.show_keys) return;
  const widgets::Look look = widgets::LookOf(context);
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport->GetCenter(), ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSize({look.Px(kWidth), 0});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border, look.theme.surface.line);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, look.Px(1));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(look.Px(18), look.Px(16)));
  ImGui::Begin("##keys", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  log->SetPanel("keys");
  widgets::Heading(look, ui::Tr(context.language, ui::Text::kKeysTitle));
  widgets::Gap(look, 4);
  for (const ui::HandKey& key : ui::HandKeys()) {
    DrawRow(look, ui::Tr(context.language, key.key), ui::Tr(context.language, key.what), log);
  }
  for (const ui::Action& action : ui::AllActions()) {
    if (action.chord == 0) continue;
    DrawRow(look, action.key_name, ui::Tr(context.language, action.title), log);
  }
  const bool clicked_elsewhere = ImGui::IsMouseClicked(ImGuiMouseButton_Left) &&
                                 !ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows);
  if (clicked_elsewhere || ImGui::IsKeyPressed(ImGuiKey_Escape)) {
    commands->push_back(ui::ShowKeys{false});
  }
  ImGui::End();
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor(2);
}

}  // namespace shardscope::panels
