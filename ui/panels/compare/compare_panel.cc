#include "ui/panels/compare/compare_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/open_error.h"
#include "ui/panel_ids.h"
#include "ui/panels/compare/compare_parts.h"
#include "ui/panels/compare/compare_words.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/fields.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"

namespace shardscope::panels {
namespace {

using ui::Text;
using ui::TrFormat;

constexpr float kPathWidth = 420;
constexpr float kStepsWidth = 110;
constexpr float kLeftShare = 0.64F;  // of the panel: tables; else histograms and settings
constexpr float kLeastRight = 220;
constexpr float kLeastRows = 90;
constexpr float kHistogramUnder = 90;  // of these where they stand under the tables
constexpr float kSettingsUnder = 110;

bool Link(const CompareFrame& frame, const char* id, Text text) {
  const bool clicked = widgets::LinkText(frame.look, id, frame.Tr(text));
  frame.NoteItem(id, frame.Tr(text));
  return clicked;
}

std::string NameOfB(const CompareFrame& frame) {
  const std::string& path = frame.context.compare.asked->path;
  if (path.empty()) return frame.Tr(Text::kCompareThisRun);
  return Printable(std::filesystem::path(path).filename().string(), "");
}

void ErrorBar(const CompareFrame& frame, const char* id, const std::string& message) {
  widgets::TextStyle style = widgets::TextOf(frame.look);
  style.color = frame.look.theme.state.bad;
  const std::string text = Printable(message, "");
  frame.Say(id, style, text);
}

void DrawSide(const CompareFrame& frame, const char* letter, const analysis::ComparedSide& side) {
  const ui::Language language = frame.context.language;
  const std::string text =
      TrFormat(language, Text::kCompareSide, letter, Printable(side.name, ""), side.num_ranks,
               side.num_steps, side.first_step, side.last_step);
  const std::string id = *letter == 'A' ? "side_a" : "side_b";
  frame.log->Int(id, text, side.num_steps, "",
                 widgets::Paragraph(frame.look, widgets::DimOf(frame.look), text));
  if (side.knobs_turned.empty()) return;
  const std::string turned =
      TrFormat(language, Text::kCompareTurned, letter, fmt::join(side.knobs_turned, ", "));
  frame.Say("turned:" + id, widgets::DimOf(frame.look), turned);
}

}  // namespace

// Nothing where a field is wrong, which is said then.
std::optional<ui::CompareWith> ComparePanel::Question(const CompareFrame& frame) {
  ui::CompareWith with{std::string(Trim(path_)), {}, {}};
  form_error_.clear();
  struct StepsField {
    Text name;
    const std::string& text;
    std::optional<analysis::Scope>* steps;
  };
  for (const StepsField& field : {StepsField{Text::kCompareStepsA, steps_a_, &with.steps_a},
                                  StepsField{Text::kCompareStepsB, steps_b_, &with.steps_b}}) {
    if (Trim(field.text).empty()) continue;
    const Result<analysis::Scope> steps = analysis::ParseSteps(Trim(field.text));
    if (!steps.ok()) {
      form_error_ = TrFormat(frame.context.language, Text::kCompareBadSteps, frame.Tr(field.name),
                             field.text);
      return std::nullopt;
    }
    *field.steps = *steps;
  }
  if (with.path.empty() && !with.steps_a && !with.steps_b) {
    form_error_ = frame.Tr(Text::kCompareNothing);
    return std::nullopt;
  }
  return with;
}

void ComparePanel::Ask(const CompareFrame& frame) {
  auto with = Question(frame);
  if (!with) return;
  chooses_ = false;
  frame.commands->push_back(*std::move(with));
}

void ComparePanel::DrawFields(const CompareFrame& frame) {
  const widgets::Look& look = frame.look;
  const float width = std::min(look.Px(kPathWidth), widgets::ContentWidth());
  bool entered = false;
  const auto field = [&](const char* id, std::string* text, Text hint, float field_width) {
    widgets::TextField(look, id, text, {.hint = frame.Tr(hint), .width = field_width});
    if (widgets::IsLeftByEnter()) {
      entered = true;
      ImGui::SetKeyboardFocusHere(-1);  // Enter left the field
    }
    frame.NoteItem(id + 2, *text);
  };
  if (wants_path_) ImGui::SetKeyboardFocusHere();
  field("##path", &path_, Text::kCompareHint, width);
  // The panel, that comes to the front, may take it again.
  if (ImGui::IsItemActive()) wants_path_ = false;
  const float gap = look.Px(16);
  const auto steps = [&](const char* id, std::string* text, Text name) {
    const char* label = frame.Tr(name);
    const widgets::TextStyle style = widgets::DimOf(look);
    const float to_field = widgets::TextSize(look, style, label).x + look.Px(8);
    // The first has the path above it.
    if (text != &steps_a_) widgets::BesideOrBelow(to_field + look.Px(kStepsWidth), gap);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ui::Box box = widgets::DrawText(look, style, {at.x, at.y + look.Px(5)}, label);
    ImGui::SetCursorScreenPos({box.x1 + look.Px(8), at.y});
    field(id, text, Text::kCompareAllSteps,
          std::min(look.Px(kStepsWidth), widgets::ContentWidth()));
  };
  steps("##steps_a", &steps_a_, Text::kCompareStepsA);
  steps("##steps_b", &steps_b_, Text::kCompareStepsB);
  const char* go = frame.Tr(Text::kCompareGo);
  widgets::BesideOrBelow(widgets::ButtonWidth(look, go, widgets::Emphasis::kPrimary), gap);
  const bool clicked = widgets::Button(look, "go", go, widgets::Emphasis::kPrimary);
  frame.NoteItem("go", go);
  if (clicked || entered) Ask(frame);
  if (!form_error_.empty()) ErrorBar(frame, "form_error", form_error_);
}

void ComparePanel::DrawRecent(const CompareFrame& frame) {
  if (frame.context.places.runs.empty()) return;
  widgets::Gap(frame.look, 8);
  widgets::FaintHeading(frame.look, frame.Tr(Text::kCompareRecent));
  for (const ui::RunEntry& run : frame.context.places.runs) {
    if (run.path == frame.context.path) continue;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = widgets::ContentWidth();
    widgets::TextStyle style = widgets::DimOf(frame.look);
    const float height = widgets::TextSize(frame.look, style, run.name).y;
    ImGui::PushID(run.path.c_str());
    const bool clicked = widgets::ClickArea("run", {width, height});
    ImGui::PopID();
    widgets::LogControl(frame.look, "link", "run", run.name);
    frame.NoteItem("run:" + run.path, run.name);
    if (ImGui::IsItemHovered()) {
      style.color = frame.look.theme.ink.text;
      ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    }
    const ui::Box name = widgets::DrawTextClipped(frame.look, style, at, width, run.name);
    const float path = name.x1 + frame.look.Px(10);
    widgets::DrawTextClipped(frame.look, widgets::FaintOf(frame.look), {path, at.y},
                             std::max(at.x + width - path, 0.0F), run.path);
    if (!clicked) continue;
    path_ = run.path;
    Ask(frame);
  }
}

void ComparePanel::DrawForm(const CompareFrame& frame) {
  frame.log->Text("form", frame.Tr(Text::kCompareTitle),
                  widgets::Heading(frame.look, frame.Tr(Text::kCompareTitle)));
  if (frame.context.compare.asked && Link(frame, "back", Text::kCompareBack)) chooses_ = false;
  const char* how = frame.Tr(Text::kCompareHow);
  frame.Say("how", widgets::DimOf(frame.look), how);
  widgets::Gap(frame.look, 8);
  DrawFields(frame);
  DrawRecent(frame);
}

// What can be done with B, in one line where there is room.
void ComparePanel::DrawActions(const CompareFrame& frame) {
  const ui::CompareState& compare = frame.context.compare;
  if (compare.is_making()) {
    const std::string text =
        compare.share > 0 && compare.share < 1
            ? TrFormat(frame.context.language, Text::kCompareReadingShare, NameOfB(frame),
                       FormatPercent(compare.share))
            : TrFormat(frame.context.language, Text::kCompareReading, NameOfB(frame));
    frame.log->Real("reading", text, compare.share, "share",
                    widgets::Paragraph(frame.look, widgets::DimOf(frame.look), text));
    if (Link(frame, "cancel", Text::kCompareCancel)) frame.commands->push_back(ui::CloseCompare{});
    return;
  }
  if (Link(frame, "other", Text::kCompareOther)) chooses_ = true;
  const auto next = [&frame](Text text) {
    const widgets::TextStyle style = widgets::DimOf(frame.look);
    widgets::BesideOrBelow(widgets::TextSize(frame.look, style, frame.Tr(text)).x,
                           frame.look.Px(16));
  };
  const bool failed = !compare.made->error.empty();
  if (!failed) {
    next(Text::kCompareShowBeside);
    if (Link(frame, "beside", Text::kCompareShowBeside)) {
      frame.commands->push_back(ui::ShowBeside{});
    }
  }
  const Text again = failed ? Text::kCompareAnyway : Text::kCompareAgain;
  next(again);
  if (Link(frame, "again", again)) {
    frame.commands->push_back(
        ui::CompareWith{compare.asked->path, compare.asked->steps_a, compare.asked->steps_b});
  }
}

void ComparePanel::DrawMade(const CompareFrame& frame) {
  const analysis::Comparison& comparison = frame.comparison();
  const std::string sentence = CompareSentence(frame.context.language, comparison);
  frame.log->Real("sentence", sentence, comparison.slower(), "share",
                  widgets::Paragraph(frame.look, widgets::BoldOf(frame.look), sentence));
  DrawSide(frame, "A", comparison.a);
  DrawSide(frame, "B", comparison.b);
  if (comparison.a.num_steps == 0 || comparison.b.num_steps == 0) return;
  if (comparison.units.by_order && !comparison.units.pairs.empty()) {
    const char* text = frame.Tr(Text::kCompareByOrder);
    frame.Say("by_order", widgets::DimOf(frame.look), text);
  }
  widgets::Gap(frame.look, 4);
  const float gap = frame.look.Px(16);
  const float room = widgets::ContentWidth() - gap - frame.look.Px(kLeastRight);
  const float least = CompareRows::LeastWidth(frame);
  if (room < least) return DrawUnderEachOther(frame);
  const float left = std::clamp(widgets::ContentWidth() * kLeftShare, least, room);
  const float right = widgets::ContentWidth() - left - gap;
  const float top = ImGui::GetCursorPosY();
  DrawComparedParts(frame, left);
  const float parts = ImGui::GetCursorPosY() - top;
  ImGui::SetCursorPos({ImGui::GetCursorPosX() + left + gap, top});
  DrawStepHistograms(frame, {right, parts - frame.look.Px(4)});
  widgets::Gap(frame.look, 4);
  const float height =
      std::max(ImGui::GetContentRegionAvail().y - frame.look.Px(2), frame.look.Px(kLeastRows));
  ImGui::BeginGroup();
  rows_.Draw(frame, {left, height});
  ImGui::EndGroup();
  ImGui::SameLine(0, gap);
  DrawDifferentSettings(frame, {right, height});
}

// In a narrow panel the tables take its width.
void ComparePanel::DrawUnderEachOther(const CompareFrame& frame) {
  const float width = widgets::ContentWidth();
  DrawComparedParts(frame, width);
  widgets::Gap(frame.look, 4);
  const float under = frame.look.Px(kHistogramUnder + kSettingsUnder + 16);
  const float height =
      std::max(ImGui::GetContentRegionAvail().y - under, frame.look.Px(kLeastRows));
  rows_.Draw(frame, {width, height});
  DrawStepHistograms(frame, {width, frame.look.Px(kHistogramUnder)});
  DrawDifferentSettings(frame, {width, frame.look.Px(kSettingsUnder)});
}

void ComparePanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const CompareFrame frame{{context, widgets::LookOf(context), log, commands}};
  const bool is_news = context.typed_into.IsNews(ui::panel_ids::kCompare, &typed_into_);
  widgets::Gap(frame.look, 4);
  if (context.snapshot == nullptr) return frame.Empty(Text::kCompareNoRun);
  const ui::CompareState& compare = context.compare;
  // Whoever asked: a file that is dropped does, too.
  if (std::exchange(questions_, compare.questions) != compare.questions) chooses_ = false;
  const bool chooses = !compare.asked || chooses_;
  wants_path_ = chooses && (wants_path_ || is_news);
  if (chooses) {
    DrawForm(frame);
    return;
  }
  DrawActions(frame);
  if (compare.made == nullptr || compare.is_making()) return;
  if (!compare.made->error.empty()) {
    ErrorBar(frame, "error",
             ui::OpenErrorText(context.language, compare.made->with.path, compare.made->is_missing,
                               compare.made->error));
    return;
  }
  DrawMade(frame);
}

ui::TableMaker ComparePanel::AsTable(const ui::Context& context) const {
  return rows_.AsTable(context);
}

}  // namespace shardscope::panels
