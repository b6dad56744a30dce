#include "ui/panels/go_to/go_to_panel.h"

#include <imgui.h>

#include <charconv>
#include <optional>

#include "ui/text.h"
#include "ui/timeline/steps.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/overlay.h"

namespace shardscope::panels {
namespace {

constexpr float kWidth = 260;

std::optional<int32_t> ParseStep(const std::string& text) {
  int32_t step = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

}  // namespace

void GoToPanel::DrawContent(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const widgets::Look look = widgets::LookOf(context);
  const auto steps =
      context.snapshot == nullptr ? std::nullopt : timeline::RecordedSteps(*context.snapshot);
  const char* title = ui::Tr(context.language, ui::Text::kGoToTitle);
  log->Text("title", title, widgets::Heading(look, title));
  if (!steps) {
    const char* none = ui::Tr(context.language, ui::Text::kGoToNoSteps);
    log->Text("error", none, widgets::Paragraph(look, widgets::DimOf(look), none));
    return;
  }
  const std::string range =
      ui::TrFormat(context.language, ui::Text::kGoToRange, steps->first, steps->second);
  if (widgets::TextField(look, "##step", &number_,
                         {.hint = range, .invalid = !error_.empty(), .mono = true})) {
    error_.clear();
  }
  if (ImGui::IsKeyPressed(ImGuiKey_Enter) || ImGui::IsKeyPressed(ImGuiKey_KeypadEnter)) {
    const std::optional<int32_t> step = ParseStep(number_);
    if (step && timeline::FindStep(*context.snapshot, *step)) {
      commands->push_back(ui::ShowStep{*step});
      commands->push_back(ui::ShowOverlay{});
    } else {
      error_ = ui::TrFormat(context.language, ui::Text::kGoToNoSuchStep, number_);
      number_.clear();
      ImGui::SetKeyboardFocusHere(-1);  // Enter left the field
    }
  }
  widgets::TextStyle style = widgets::DimOf(look);
  if (!error_.empty()) {
    style.color = look.theme.state.bad;
    log->Text("error", error_, widgets::Paragraph(look, style, error_));
    style = widgets::DimOf(look);
  }
  log->Text("range", range, widgets::Paragraph(look, style, range));
}

void GoToPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  if (context.overlay != ui::Overlay::kGoTo) return;
  const widgets::Look look = widgets::LookOf(context);
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const widgets::OverlayWindow window(
      look, "##go_to",
      {.at = {viewport->GetCenter().x, viewport->Pos.y + look.Px(80)},
       .pivot = {0.5f, 0},
       .width = kWidth});
  log->SetPanel("go_to");
  if (ImGui::IsWindowAppearing()) {
    number_.clear();
    error_.clear();
    ImGui::SetKeyboardFocusHere();
  }
  DrawContent(context, log, commands);
  if (window.IsLeft()) commands->push_back(ui::ShowOverlay{});
}

}  // namespace shardscope::panels
