#include "ui/panels/banner/banner_panel.h"

#include <string>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/hang_words.h"
#include "ui/panel_ids.h"
#include "ui/text.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using widgets::Look;

constexpr float kHeight = 30;
constexpr float kCancelWidth = 64;
constexpr float kPartButtonWidth = 84;
constexpr float kCross = 26;  // width of the place that puts the banner away

// The sentence of the first problem: the others mostly follow from it.
std::string SentenceOf(const ui::Context& context) {
  const analysis::Report& report = *context.report;
  if (!report.errors.empty()) {
    const query::Marker& error = report.errors.front();
    const std::string message = ui::ErrorText(context.language, error.new_value);
    if (error.step < 0) {
      return ui::TrFormat(context.language, Text::kRunFailedOutside, message);
    }
    return ui::TrFormat(context.language, Text::kRunFailed, error.step, message);
  }
  if (report.hang.is_hang) return ui::HangSentence(context.language, report.hang);
  if (!report.unfinished.empty()) {
    return ui::TrFormat(context.language, Text::kFileUnfinished, report.unfinished.front());
  }
  const std::vector<std::string>& files = report.cut_files;
  if (files.size() == 1) {
    return ui::TrFormat(context.language, Text::kFileNotWhole, files.front());
  }
  return ui::TrFormat(context.language, Text::kFilesNotWhole, files.size(), Join(files, "; "));
}

// The same length of time, with the error at three quarters of it.
ui::SetView ViewOf(const ui::View& view, int64_t time_ns) {
  const int64_t length_ns = view.end_ns - view.start_ns;
  return {time_ns - length_ns / 4 * 3, time_ns + length_ns / 4, true, false};
}

void HandleMouse(const ui::Context& context, const ui::Box& box, const std::string& sentence,
                 ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const float cross = look.Px(kCross);
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  const bool clicked = widgets::ClickArea("problem", {box.x1 - cross - box.x0, box.y1 - box.y0});
  const std::vector<query::Marker>& errors = context.report->errors;
  if (!context.headless) {
    const char* detail = errors.empty() ? "" : ui::Tr(context.language, Text::kGoToProblem);
    widgets::ItemTooltip(look, sentence, detail);
  }
  if (clicked && !errors.empty()) {
    commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
    commands->push_back(ViewOf(context.view, errors.front().time_ns));
  }
  ImGui::SetCursorScreenPos({box.x1 - cross, box.y0});
  if (widgets::ClickArea("dismiss", {cross, box.y1 - box.y0})) {
    commands->push_back(ui::DismissProblems{});
  }
}

std::string ImportSentence(const ui::Context& context) {
  const ui::Importing& importing = *context.importing;
  const std::string share = FormatPercent(importing.share);
  if (importing.left_ns <= 0)
    return ui::TrFormat(context.language, Text::kImporting, importing.name, share);
  return ui::TrFormat(context.language, Text::kImportingLeft, importing.name, share,
                      FormatDuration(importing.left_ns));
}

void DrawImport(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ui::Theme& theme = *context.theme;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float rounding = look.Px(ui::kRounding);
  list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, theme.surface.panel, rounding);
  const float done = box.x0 + (box.x1 - box.x0) * static_cast<float>(context.importing->share);
  list->PushClipRect({box.x0, box.y0}, {done, box.y1}, true);
  list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1},
                      ui::Mix(theme.surface.panel, theme.state.accent, 0.25F), rounding);
  list->PopClipRect();
  list->AddRect({box.x0, box.y0}, {box.x1, box.y1}, theme.surface.line, rounding, look.Px(1));
  const float x = box.x0 + look.Px(ui::kPanelPadding);
  const float y = box.y0 + look.Px(8);
  const float button = look.Px(kCancelWidth);
  const float end = box.x1 - button - look.Px(12);
  const std::string sentence = ImportSentence(context);
  const ui::Box drawn =
      widgets::DrawTextClipped(look, widgets::BoldOf(look), {x, y}, end - x, sentence);
  log->Real("import", sentence, context.importing->share, "", drawn);
  if (context.importing->previews) {
    const float after = drawn.x1 + look.Px(16);
    const std::string preview = ui::Tr(context.language, Text::kImportPreview);
    widgets::DrawTextClipped(look, widgets::DimOf(look), {after, y}, end - after, preview);
  }
  ImGui::SetCursorScreenPos({box.x1 - button - look.Px(4), box.y0 + look.Px(3)});
  if (widgets::Button(look, "cancel_import", ui::Tr(context.language, Text::kCancelImport),
                      widgets::Emphasis::kQuiet, button)) {
    commands->push_back(ui::CancelImport{});
  }
}

void DrawFrame(const Look& look, const ui::Box& box, ui::Color ground, ui::Color line) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float rounding = look.Px(ui::kRounding);
  list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, ground, rounding);
  list->AddRect({box.x0, box.y0}, {box.x1, box.y1}, line, rounding, look.Px(1));
}

// The colours of something wrong.
void DrawAlarm(const Look& look, const ui::Box& box) {
  const ui::Color exposed = look.theme.op.exposed;
  DrawFrame(look, box, ui::Mix(look.theme.surface.panel, exposed, 0.14F), exposed);
}

bool IsAway(const ui::Context& context) { return context.place != ui::RunPlace::kThere; }

void DrawAway(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
              ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  DrawAlarm(look, box);
  float end = box.x1 - look.Px(4);
  if (ui::IsReplaced(context.place)) {
    end -= look.Px(kPartButtonWidth);
    ImGui::SetCursorScreenPos({end, box.y0 + look.Px(3)});
    if (widgets::Button(look, "open_replaced", ui::Tr(context.language, Text::kOpenReplaced),
                        widgets::Emphasis::kQuiet, look.Px(kPartButtonWidth))) {
      commands->push_back(ui::OpenRun{context.path});
    }
  }
  const std::string sentence = ui::RunPlaceText(context.language, context.place);
  const float x = box.x0 + look.Px(ui::kPanelPadding);
  const ui::Box drawn = widgets::DrawTextClipped(
      look, widgets::BoldOf(look), {x, box.y0 + look.Px(8)}, end - look.Px(12) - x, sentence);
  log->Text("not_there", sentence, drawn);
  if (context.headless) return;
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  widgets::ClickArea("not_there", {end - box.x0, box.y1 - box.y0});
  widgets::ItemTooltip(look, sentence, context.path);
}

bool HasProblem(const ui::Context& context) {
  return ui::NumProblems(context) > context.dismissed_problems;
}

const query::RunPart* PartOf(const ui::Context& context) {
  return context.snapshot != nullptr && context.snapshot->part ? &*context.snapshot->part : nullptr;
}

void DrawPart(const ui::Context& context, const query::RunPart& part, const ui::Box& box,
              ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  DrawFrame(look, box, look.theme.surface.panel, look.theme.surface.line);
  float end = box.x1 - look.Px(4);
  const auto button = [&](const char* id, Text text, const ui::Command& command) {
    end -= look.Px(kPartButtonWidth);
    ImGui::SetCursorScreenPos({end, box.y0 + look.Px(3)});
    if (widgets::Button(look, id, ui::Tr(context.language, text), widgets::Emphasis::kQuiet,
                        look.Px(kPartButtonWidth))) {
      commands->push_back(command);
    }
    end -= look.Px(4);
  };
  const auto to_step = [](int64_t step) {
    return ui::GoToLink{{.step = static_cast<int32_t>(step)}};
  };
  const bool goes_on = query::MayGrow(context.snapshot->state);
  if (!goes_on) button("all", Text::kAllSteps, ui::LoadAllSteps{});
  if (!goes_on && part.last_step < part.last_of_run) {
    button("later", Text::kLaterSteps, to_step(part.last_step + 1));
  }
  if (!goes_on && part.first_step > part.first_of_run) {
    button("earlier", Text::kEarlierSteps, to_step(part.first_step - 1));
  }
  const std::string needed = FormatBytes(part.needed_bytes);
  const std::string sentence =
      goes_on ? ui::TrFormat(context.language, Text::kPartOfLiveRun, part.first_step,
                             part.first_of_run, needed)
              : ui::TrFormat(context.language, Text::kPartOfRun, part.first_step, part.last_step,
                             part.first_of_run, part.last_of_run, needed);
  const ui::Box drawn = widgets::DrawTextClipped(
      look, widgets::BoldOf(look), {box.x0 + look.Px(ui::kPanelPadding), box.y0 + look.Px(8)},
      end - box.x0 - look.Px(ui::kPanelPadding + 12), sentence);
  log->Int("part", sentence, part.last_step - part.first_step + 1, "", drawn);
}

void DrawProblem(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                 ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  DrawAlarm(look, box);
  const std::string sentence = SentenceOf(context);
  const size_t more = ui::NumProblems(context) - 1;
  float end = box.x1 - look.Px(kCross);
  const float y = box.y0 + look.Px(8);
  if (more > 0) {
    const std::string text = ui::TrFormat(context.language, Text::kMoreProblems, more);
    end = widgets::DrawTextRight(look, widgets::DimOf(look), {end - look.Px(4), y}, text).x0;
  }
  const float x = box.x0 + look.Px(ui::kPanelPadding);
  const ui::Box drawn = widgets::DrawTextClipped(look, widgets::BoldOf(look), {x, y},
                                                 end - look.Px(12) - x, sentence);
  const bool failed = !context.report->errors.empty();
  log->Int("problem", sentence, failed ? context.report->errors.front().time_ns : -1,
           failed ? "ns" : "", drawn);
  log->Int("problems", "", static_cast<int64_t>(more + 1), "", box);
  widgets::DrawCross(look, {box.x1 - look.Px(kCross), box.y0, box.x1, box.y1});
  HandleMouse(context, box, sentence, commands);
}

}  // namespace

float BannerHeight(const ui::Context& context) {
  const bool has_one =
      context.importing || IsAway(context) || HasProblem(context) || PartOf(context) != nullptr;
  return has_one ? kHeight * context.scale : 0;
}

void DrawBanner(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                ui::Commands* commands) {
  if (context.importing) return DrawImport(context, box, log, commands);
  if (IsAway(context)) return DrawAway(context, box, log, commands);
  if (HasProblem(context)) return DrawProblem(context, box, log, commands);
  DrawPart(context, *PartOf(context), box, log, commands);
}

}  // namespace shardscope::panels
