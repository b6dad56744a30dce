#include "ui/panels/steps/steps_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/context.h"
#include "ui/panel_ids.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/steps/step_words.h"
#include "ui/panels/steps/steps_chart.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {

struct StepsFrame : PanelFrame {
  const std::vector<analysis::StepRow>& rows() const { return *context.step_table; }
};

namespace {

using analysis::StepRow;
using ui::Text;

constexpr float kChartShare = 0.42F;  // of the height
constexpr float kLeastRows = 90;
constexpr float kLeastEvents = 120;

struct StepColumn {
  Text title;
  Text tip;
  const char* id;      // in the log of what was drawn, and in files
  const char* unit;    // there
  const char* widest;  // number in it
  float weight;
};
constexpr std::array kStepColumns = {
    StepColumn{Text::kStepsStep, Text::kStepsStepTip, "step", "", "8888888", 0.6F},
    StepColumn{Text::kStepsTime, Text::kStepsTimeTip, "step_ns", "ns", "88.8 ms", 1.0F},
    StepColumn{Text::kStepsSlowest, Text::kStepsSlowestTip, "slowest_rank", "", "8888", 1.15F},
    StepColumn{Text::kStepsCompute, Text::kStepsMeanTip, "compute_ns", "ns", "88.8 ms", 1.0F},
    StepColumn{Text::kStepsExposed, Text::kStepsExposedTip, "exposed_ns", "ns", "88.8 ms", 1.0F},
    StepColumn{Text::kStepsIdle, Text::kStepsMeanTip, "idle_ns", "ns", "88.8 ms", 1.0F},
    StepColumn{Text::kStepsTokens, Text::kStepsTokensTip, "tokens_per_second", "tokens/s", "88.8 M",
               0.9F},
    StepColumn{Text::kStepsLoss, Text::kStepsLossTip, "loss", "nats", "88.8888", 0.9F},
    StepColumn{Text::kStepsNorm, Text::kStepsNormTip, "grad_norm", "", "8.88e+08", 0.9F}};
constexpr int kEventsColumn = static_cast<int>(kStepColumns.size());
constexpr int kNumStepColumns = kEventsColumn + 1;

// In the order of kStepColumns; NaN where there is none.
std::array<double, kStepColumns.size()> StepNumbers(const StepRow& row) {
  return {static_cast<double>(row.step),
          static_cast<double>(row.step_ns),
          static_cast<double>(row.slowest_rank),
          row.compute_ns,
          row.exposed_ns,
          row.idle_ns,
          row.tokens > 0 ? row.tokens_per_second() : std::nan(""),
          row.loss,
          row.grad_norm};
}

std::string StepText(const StepRow& row, size_t column) {
  const double value = StepNumbers(row)[column];
  const std::string_view unit = kStepColumns[column].unit;
  if (std::isnan(value)) return "–";
  if (unit == "ns") return ui::FormatDuration(value);
  if (unit == "tokens/s") return FormatCount(value);
  if (unit == "nats") return LossText(value);
  if (kStepColumns[column].title == Text::kStepsNorm) return NormText(value);
  return std::to_string(std::llround(value));
}

std::string StepEvents(ui::Language language, const StepRow& row) {
  std::vector<std::string> words;
  for (const query::Marker& event : row.events) words.push_back(EventWords(language, event));
  return Join(words, ", ");
}

// `leads`: scrolls to the row if it is out of sight.
void DrawStep(const StepsFrame& frame, const StepRow& row, bool leads) {
  ImGui::TableNextRow();
  ImGui::PushID(row.step);
  ImGui::TableSetColumnIndex(0);
  const ImVec2 at = ImGui::GetCursorPos();
  if (ImGui::Selectable("##step", row.step == frame.context.focus.step,
                        ImGuiSelectableFlags_SpanAllColumns)) {
    frame.commands->push_back(ui::ShowStep{row.step});
    frame.commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
  }
  if (leads && !ImGui::IsItemVisible()) ImGui::SetScrollHereY(0.5F);
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal)) {
    ImGui::SetTooltip("%s", frame.Tr(Text::kStepsRowTip));
  }
  frame.NoteItem(fmt::format("row:{}", row.step), std::to_string(row.step));
  ImGui::SetCursorPos(at);
  if (row.is_warm_up) ImGui::PushStyleColor(ImGuiCol_Text, frame.look.theme.ink.dim);
  const auto numbers = StepNumbers(row);
  for (size_t column = 0; column < kStepColumns.size(); ++column) {
    ImGui::TableSetColumnIndex(static_cast<int>(column));
    const std::string text = StepText(row, column);
    frame.log->Real(fmt::format("{}:{}", kStepColumns[column].id, row.step), text, numbers[column],
                    kStepColumns[column].unit, widgets::NumberCell(text));
  }
  ImGui::TableSetColumnIndex(kEventsColumn);
  const std::string events = StepEvents(frame.context.language, row);
  if (!events.empty()) {
    frame.log->Text(fmt::format("events:{}", row.step), events, widgets::TextCell(events));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", events.c_str());
  }
  if (row.is_warm_up) ImGui::PopStyleColor();
  ImGui::PopID();
}

std::array<widgets::TableColumn, kNumStepColumns> TableColumnsOf(const StepsFrame& frame) {
  std::array<widgets::TableColumn, kNumStepColumns> columns;
  for (size_t at = 0; at < kStepColumns.size(); ++at) {
    const StepColumn& column = kStepColumns[at];
    const char* title = frame.Tr(column.title);
    columns[at] = {.title = title,
                   .least = widgets::NumbersWidth(frame.look, title, column.widest),
                   .weight = column.weight,
                   .flags = ImGuiTableColumnFlags_PreferSortDescending,
                   .id = column.id,
                   .tip = frame.Tr(column.tip),
                   .is_number = true};
  }
  columns[kEventsColumn] = {.title = frame.Tr(Text::kStepsEvents),
                            .least = frame.look.Px(kLeastEvents),
                            .weight = 2.2F,
                            .flags = ImGuiTableColumnFlags_NoSort,
                            .id = "events",
                            .tip = frame.Tr(Text::kStepsEventsTip)};
  return columns;
}

}  // namespace

void StepsPanel::Update(const StepsFrame& frame) {
  if (made_of_ == frame.context.step_table) return;
  made_of_ = frame.context.step_table;
  order_.clear();
  if (sorted_.column < 0) return;
  order_.resize(made_of_->size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  const auto column = static_cast<size_t>(sorted_.column);
  // What has no number stands last.
  const auto key = [&](size_t row) {
    const double value = StepNumbers((*made_of_)[row])[column];
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    return sorted_.descending ? -value : value;
  };
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return key(a) < key(b); });
}

// While the timeline follows the run, its step is the newest, and the list may stand elsewhere.
bool StepsPanel::LeadsToAnotherStep(const ui::Context& context) {
  const int32_t before = std::exchange(led_to_, context.focus.step);
  return before != context.focus.step && !context.view.follow;
}

int StepsPanel::PlaceOfStep(const std::vector<StepRow>& rows) const {
  for (size_t at = 0; at < rows.size(); ++at) {
    if (rows[order_.empty() ? at : order_[at]].step == led_to_) return static_cast<int>(at);
  }
  return -1;
}

void StepsPanel::DrawTable(const StepsFrame& frame, float height) {
  const auto columns = TableColumnsOf(frame);
  if (!widgets::BeginTable("steps", columns, widgets::kSortedTable, {0, height})) return;
  if (widgets::TakeOrder(&sorted_)) {
    if (sorted_.column >= 0) ImGui::SetScrollY(0);  // what is largest, not where one was
    made_of_ = nullptr;
  }
  Update(frame);
  widgets::HeaderRow(frame.look, columns, sorted_.column, frame.log);
  // A list that stands at its end follows the run.
  const bool follows = sorted_.column < 0 && ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;
  const int wanted = LeadsToAnotherStep(frame.context) ? PlaceOfStep(frame.rows()) : -1;
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(frame.rows().size()));
  if (wanted >= 0) clipper.IncludeItemByIndex(wanted);
  while (clipper.Step()) {
    for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
      const auto index = static_cast<size_t>(at);
      DrawStep(frame, frame.rows()[order_.empty() ? index : order_[index]], at == wanted);
    }
  }
  if (follows && wanted < 0) ImGui::SetScrollHereY(1);
  ImGui::EndTable();
}

void StepsPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const StepsFrame frame{{context, widgets::LookOf(context), log, commands}};
  if (context.snapshot == nullptr) return frame.Empty(Text::kStepsEmpty);
  if (context.step_table == nullptr) return frame.Empty(Text::kStepsMaking);
  if (context.step_table->empty()) {
    return frame.Empty(ui::IsRecordedWithoutSteps(context) ? Text::kRecordedNoSteps
                                                           : Text::kStepsNone);
  }
  widgets::Gap(frame.look, 4);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 least = LeastStepsChart(frame.look);
  float chart = std::max(room.y * kChartShare, least.y);
  if (chart + frame.look.Px(kLeastRows) > room.y || room.x < least.x) {
    chart = 0;  // the table needs the room
  } else {
    DrawStepsChart(context, frame.rows(), {at.x, at.y, at.x + room.x, at.y + chart}, log, commands);
    chart += frame.look.Px(6);
  }
  ImGui::SetCursorScreenPos({at.x, at.y + chart});
  DrawTable(frame, std::max(room.y - chart, frame.look.Px(kLeastRows)));
}

ui::TableMaker StepsPanel::AsTable(const ui::Context& context) const {
  if (context.step_table == nullptr) return nullptr;
  const bool is_sorted = made_of_ == context.step_table;
  return [rows = context.step_table, order = is_sorted ? order_ : std::vector<size_t>()] {
    ui::Table table;
    for (const StepColumn& column : kStepColumns) table.columns.emplace_back(column.id);
    table.columns.emplace_back("events");
    for (size_t at = 0; at < rows->size(); ++at) {
      const StepRow& row = (*rows)[order.empty() ? at : order[at]];
      std::vector<std::string>& cells = table.rows.emplace_back();
      for (const double number : StepNumbers(row)) cells.push_back(ui::ExactText(number));
      cells.push_back(StepEvents(ui::Language::kEnglish, row));
    }
    return table;
  };
}

}  // namespace shardscope::panels
