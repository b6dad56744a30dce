#include "ui/panels/menu/help_panel.h"

#include "ui/text.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

constexpr float kHelpWidth = 520;

}  // namespace

void DrawHelp(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay != ui::Overlay::kHelp) return;
  const widgets::Look look = widgets::LookOf(context);
  const widgets::OverlayWindow window(look, "##help", widgets::InTheMiddle(kHelpWidth));
  log->SetPanel("help");
  widgets::Heading(look, Tr(context.language, Text::kCommandHelp));
  for (const Text paragraph : {Text::kHelpTimeline, Text::kHelpKnobs, Text::kHelpFindings,
                               Text::kHelpRuns, Text::kHelpMore}) {
    const char* text = Tr(context.language, paragraph);
    log->Text("paragraph", text, widgets::Paragraph(look, widgets::DimOf(look), text));
    widgets::Gap(look, 2);
  }
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
