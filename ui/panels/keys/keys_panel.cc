#include "ui/panels/keys/keys_panel.h"

#include "ui/actions.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

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
  if (context.overlay != ui::Overlay::kKeys) return;
  const widgets::Look look = widgets::LookOf(context);
  const widgets::OverlayWindow window(look, "##keys", widgets::InTheMiddle(kWidth));
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
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
