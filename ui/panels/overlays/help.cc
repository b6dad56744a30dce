#include "ui/panels/overlays/help.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "trace/base/text.h"
#include "ui/panel_list.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;

// "Timeline Ctrl+1, ..., Memory".
std::string PanelsWithKeys(ui::Language language) {
  std::vector<std::string> panels;
  for (const ui::PanelInfo& panel : ui::kPanelList) {
    const char* gap = *panel.key_name == '\0' ? "" : " ";
    panels.push_back(fmt::format("{}{}{}", ui::Tr(language, panel.title), gap, panel.key_name));
  }
  return Join(panels, language == ui::Language::kChinese ? "、" : ", ");
}

}  // namespace

void DrawHelp(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log) {
  widgets::Heading(look, ui::Tr(context.language, Text::kCommandHelp));
  const auto paragraph = [&](const std::string& text) {
    log->Text("paragraph", text, widgets::Paragraph(look, widgets::DimOf(look), text));
    widgets::Gap(look, 2);
  };
  for (const Text text :
       {Text::kHelpTimeline, Text::kHelpKnobs, Text::kHelpFindings, Text::kHelpRuns}) {
    paragraph(ui::Tr(context.language, text));
  }
  paragraph(ui::TrFormat(context.language, Text::kHelpPanels, PanelsWithKeys(context.language)));
  paragraph(ui::Tr(context.language, Text::kHelpMore));
}

}  // namespace shardscope::panels
