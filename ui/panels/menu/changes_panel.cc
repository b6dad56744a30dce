#include "ui/panels/menu/changes_panel.h"

#include <algorithm>

#include "ui/text.h"
#include "ui/timeline/labels.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;
using ui::TrFormat;

constexpr float kChangesWidth = 460;
constexpr float kRowHeight = 26;
constexpr size_t kMostRows = 14;  // in sight at once

void DrawRow(const widgets::Look& look, const ui::Context& context, const timeline::Change& change,
             ui::DrawLog* log, ui::Commands* commands) {
  const std::string text = timeline::ChangeLabel(change.markers);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::PushID(change.step);
  if (widgets::MenuRow(look, text.c_str(), TrFormat(context.language, Text::kStepN, change.step))) {
    commands->push_back(ui::ShowOverlay{});
    commands->push_back(ui::FocusPanel{"timeline"});
    commands->push_back(ui::ShowStep{change.step});
  }
  ImGui::PopID();
  log->Text("change:" + std::to_string(change.step), text,
            widgets::ToBox(at, ImGui::GetItemRectMax()));
}

}  // namespace

void DrawChanges(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay != ui::Overlay::kChanges) return;
  const widgets::Look look = widgets::LookOf(context);
  const widgets::OverlayWindow window(look, "##changes", widgets::InTheMiddle(kChangesWidth));
  log->SetPanel("changes");
  widgets::Heading(look, Tr(context.language, Text::kChangesTitle));
  std::vector<timeline::Change> changes;
  if (context.snapshot) changes = timeline::ChangesOf(*context.snapshot);
  if (changes.empty()) {
    const char* none = Tr(context.language, Text::kChangesNone);
    log->Text("none", none, widgets::Paragraph(look, widgets::DimOf(look), none));
  } else {
    const float rows = static_cast<float>(std::min(changes.size(), kMostRows));
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
    if (ImGui::BeginChild("rows", {0, rows * look.Px(kRowHeight)})) {
      ImGuiListClipper clipper;
      clipper.Begin(static_cast<int>(changes.size()), look.Px(kRowHeight));
      while (clipper.Step()) {
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
          DrawRow(look, context, changes[static_cast<size_t>(i)], log, commands);
        }
      }
    }
    ImGui::EndChild();
    ImGui::PopStyleVar();
  }
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
