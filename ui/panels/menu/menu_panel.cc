#include "ui/panels/menu/menu_panel.h"

#include <fmt/format.h>

#include <cmath>

#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

constexpr float kMenuWidth = 260;

// One choice with its name over it. Returns the option clicked, or -1.
int Choose(const widgets::Look& look, const ui::Context& context, Text title,
           const widgets::Segments& segments, ui::DrawLog* log) {
  const char* text = Tr(context.language, title);
  log->Text(std::string("choice:") + Tr(ui::Language::kEnglish, title), text,
            widgets::FaintHeading(look, text));
  return widgets::Segmented(look, Tr(ui::Language::kEnglish, title), segments);
}

void DrawChoices(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log,
                 ui::Commands* commands) {
  // Languages are written in themselves.
  const int language = Choose(look, context, Text::kMenuLanguage,
                              {{"English", "中文"}, static_cast<int>(context.language)}, log);
  if (language >= 0) commands->push_back(ui::SetLanguage{static_cast<ui::Language>(language)});
  const int theme =
      Choose(look, context, Text::kMenuTheme,
             {{Tr(context.language, Text::kMenuDark), Tr(context.language, Text::kMenuLight)},
              static_cast<int>(context.theme_name)},
             log);
  if (theme >= 0) commands->push_back(ui::SetTheme{static_cast<ui::ThemeName>(theme)});
  const std::string percent = fmt::format("{:.0f} %", std::round(context.scale * 100));
  const int size = Choose(look, context, Text::kMenuSize, {{"A −", percent, "A +"}}, log);
  if (size == 0) commands->push_back(ui::SetScale{context.scale / ui::kScaleStep});
  if (size == 1) commands->push_back(ui::SetScale{0});
  if (size == 2) commands->push_back(ui::SetScale{context.scale * ui::kScaleStep});
}

}  // namespace

void DrawMenu(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay != ui::Overlay::kMenu) return;
  const widgets::Look look = widgets::LookOf(context);
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float margin = look.Px(ui::kGrid);
  const widgets::OverlayWindow window(look, "##menu",
                                      {.at = {viewport->Pos.x + viewport->Size.x - margin,
                                              viewport->Pos.y + look.Px(ui::kTopBarHeight)},
                                       .pivot = {1, 0},
                                       .width = kMenuWidth});
  log->SetPanel("menu");
  DrawChoices(look, context, log, commands);
  widgets::Gap(look, 6);
  const auto row = [&](Text title, const char* key, const ui::Command& command) {
    const char* text = Tr(context.language, title);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const bool clicked = widgets::MenuRow(look, text, key);
    log->Text(std::string("row:") + Tr(ui::Language::kEnglish, title), text,
              widgets::ToBox(at, ImGui::GetItemRectMax()));
    if (clicked) commands->push_back(command);
  };
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, look.Px(1)));
  row(Text::kCommandChanges, "C", ui::ShowOverlay{ui::Overlay::kChanges});
  row(Text::kCommandPalette, "Ctrl+P", ui::ShowOverlay{ui::Overlay::kPalette});
  row(Text::kCommandKeys, "?", ui::ShowOverlay{ui::Overlay::kKeys});
  row(Text::kCommandHelp, "F1", ui::ShowOverlay{ui::Overlay::kHelp});
  ImGui::PopStyleVar();
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
