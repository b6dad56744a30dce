#include "ui/panels/menu/stop_question.h"

#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::Tr;

constexpr float kQuestionWidth = 360;

}  // namespace

void DrawStopQuestion(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay != ui::Overlay::kStopQuestion) return;
  const widgets::Look look = widgets::LookOf(context);
  const widgets::OverlayWindow window(look, "##stop_question",
                                      widgets::InTheMiddle(kQuestionWidth));
  log->SetPanel("stop_question");
  const char* title = Tr(context.language, Text::kStopQuestion);
  log->Text("title", title, widgets::Heading(look, title));
  widgets::Paragraph(look, widgets::DimOf(look), Tr(context.language, Text::kStopTip));
  widgets::Gap(look, 6);
  const bool stops = widgets::Button(look, "stop", Tr(context.language, Text::kCommandStop));
  ImGui::SameLine(0, look.Px(ui::kGrid));
  const bool goes_on = widgets::Button(look, "cancel", Tr(context.language, Text::kCancel),
                                       widgets::Emphasis::kPrimary);
  if (stops) commands->push_back(ui::DoAction{config::Action::kStop});
  // The training may end by itself meanwhile.
  const bool over = !ui::CanSteer(context);
  if (stops || goes_on || over || ImGui::IsKeyPressed(ImGuiKey_Enter, false) || window.IsLeft()) {
    commands->push_back(ui::ShowOverlay{});
  }
}

}  // namespace shardscope::panels
