#include "ui/panels/collectives/collectives_panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/context.h"
#include "ui/panel_ids.h"
#include "ui/panels/collectives/collective_scatter.h"
#include "ui/panels/collectives/hang_table.h"
#include "ui/panels/panel_frame.h"
#include "ui/scope.h"
#include "ui/text.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {

struct CollectivesFrame : PanelFrame {
  const analysis::CollectiveTable& table() const { return *context.collectives; }
};

namespace {

using analysis::CollectiveGroup;
using ui::Text;

constexpr float kScatterShare = 0.42F;  // of the height
constexpr float kLeastTable = 90;
constexpr float kLeastPlot = 110;  // a low panel scrolls to it
constexpr float kLeastText = 72;

// The texts of a row stand left of its numbers.
constexpr int kNumTexts = 3;
constexpr std::array<const char*, kNumTexts> kTextIds = {"0", "1", "2"};  // in the log
struct NumberColumn {
  Text title;
  Text tip;
  const char* id;    // in the log of what was drawn
  const char* unit;  // there
  const char* widest;
};
constexpr std::array kNumbers = {
    NumberColumn{Text::kCollectivesCalls, Text::kCollectivesCallsTip, "calls", "", "8888888"},
    NumberColumn{Text::kCollectivesSize, Text::kCollectivesSizeTip, "size", "B", "88.8 MB"},
    NumberColumn{Text::kCollectivesSent, Text::kCollectivesSentTip, "sent", "B", "88.8 MB"},
    NumberColumn{Text::kCollectivesWait, Text::kCollectivesWaitTip, "wait", "ns", "88.8 ms"},
    NumberColumn{Text::kCollectivesTransfer, Text::kCollectivesTransferTip, "transfer", "ns",
                 "88.8 ms"},
    NumberColumn{Text::kCollectivesBandwidth, Text::kCollectivesBandwidthTip, "bandwidth", "B/s",
                 "88.8 MB/s *"},
    NumberColumn{Text::kCollectivesExposed, Text::kCollectivesExposedTip, "exposed", "ns",
                 "88.8 ms"}};
constexpr int kNumColumns = kNumTexts + static_cast<int>(kNumbers.size());
using Numbers = std::array<double, kNumbers.size()>;

// In the order of kNumbers. `rank_steps`: that the sums are of.
Numbers NumbersOf(const analysis::CollectiveSums& sums, double rank_steps) {
  const auto calls = static_cast<double>(std::max<int64_t>(sums.calls, 1));
  const double steps = std::max(rank_steps, 1.0);
  return {static_cast<double>(sums.calls),
          static_cast<double>(sums.payload_bytes) / calls,
          static_cast<double>(sums.wire_bytes) / steps,
          static_cast<double>(sums.wait_ns) / calls,
          static_cast<double>(sums.transfer_ns) / calls,
          sums.bus_bandwidth(),
          static_cast<double>(sums.exposed_ns) / steps};
}

std::string TextOf(size_t column, double value, bool is_emulated) {
  const std::string_view unit = kNumbers[column].unit;
  if (unit == "B/s") return FormatBandwidth(value) + (is_emulated ? " *" : "");
  if (unit == "B") return FormatBytes(std::llround(value));
  if (unit == "ns") return ui::FormatDuration(value);
  return std::to_string(std::llround(value));
}

// That the sums of the row are of.
double RankStepsOf(const analysis::CollectiveTable& table, const CollectiveRow& row) {
  const auto all = static_cast<double>(table.num_rank_steps);
  const auto steps = static_cast<double>(std::max<size_t>(table.steps.size(), 1));
  return row.step < 0 ? all : all / steps;
}

std::array<std::string, kNumTexts> TextsOf(const CollectiveRow& row) {
  const analysis::CollectiveGroupKey& key = row.group.key;
  if (row.step >= 0) return {std::to_string(row.step), "", ""};
  return {key.kind, key.unit, key.communicator};
}

// What the log of what was drawn calls it.
std::string NameOf(const CollectiveRow& row) {
  std::vector<std::string> parts;
  for (const std::string& text : TextsOf(row)) {
    if (!text.empty()) parts.push_back(text);
  }
  return Join(parts, " ");
}

// Behind the name of a column in a file.
std::string NameOfUnit(std::string_view unit) {
  if (unit == "ns") return "_ns";
  if (unit == "B") return "_bytes";
  return unit == "B/s" ? "_bytes_per_second" : "";
}

void ShowInTimeline(const CollectivesFrame& frame, const CollectiveRow& row) {
  if (row.step >= 0) {
    frame.commands->push_back(ui::ShowStep{row.step});
    frame.commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
    return;
  }
  const CollectiveGroup& group = row.group;
  frame.commands->push_back(ui::ShowOp{group.longest, group.longest_rank});
}

void DrawRow(const CollectivesFrame& frame, const CollectiveRow& row, int index) {
  ImGui::TableNextRow();
  ImGui::PushID(index);
  const std::array<std::string, kNumTexts> texts = TextsOf(row);
  for (int column = 0; column < kNumTexts; ++column) {
    ImGui::TableSetColumnIndex(column);
    const std::string& text = texts[static_cast<size_t>(column)];
    if (column == 0) {
      const ImVec2 at = ImGui::GetCursorPos();
      if (ImGui::Selectable("##row", false, ImGuiSelectableFlags_SpanAllColumns)) {
        ShowInTimeline(frame, row);
      }
      if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal)) {
        ImGui::SetTooltip("%s",
                          frame.Tr(row.step >= 0 ? Text::kStepsRowTip : Text::kCollectivesRowTip));
      }
      frame.NoteItem("row:" + std::to_string(index), NameOf(row));
      ImGui::SetCursorPos(at);
    }
    widgets::TextCell(text);
  }
  const Numbers numbers = NumbersOf(row.group.sums, RankStepsOf(frame.table(), row));
  for (size_t at = 0; at < numbers.size(); ++at) {
    ImGui::TableSetColumnIndex(kNumTexts + static_cast<int>(at));
    const std::string text = TextOf(at, numbers[at], row.group.sums.is_emulated);
    frame.log->Real(fmt::format("{}:{}", kNumbers[at].id, NameOf(row)), text, numbers[at],
                    kNumbers[at].unit, widgets::NumberCell(text));
  }
  ImGui::PopID();
}

std::array<widgets::TableColumn, kNumColumns> ColumnsOf(const CollectivesFrame& frame,
                                                        bool of_steps) {
  const std::array<Text, kNumTexts> titles = {
      of_steps ? Text::kCollectivesStep : Text::kCollectivesKind, Text::kCollectivesUnit,
      Text::kCollectivesGroup};
  const std::array<Text, kNumTexts> tips = {
      of_steps ? Text::kCollectivesStepTip : Text::kCollectivesKindTip, Text::kCollectivesUnitTip,
      Text::kCollectivesGroupTip};
  std::array<widgets::TableColumn, kNumColumns> columns;
  for (size_t at = 0; at < titles.size(); ++at) {
    columns[at] = {.title = frame.Tr(titles[at]),
                   .least = frame.look.Px(kLeastText),
                   .weight = 1.1F,
                   .id = kTextIds[at],
                   .tip = frame.Tr(tips[at])};
  }
  for (size_t at = 0; at < kNumbers.size(); ++at) {
    const NumberColumn& number = kNumbers[at];
    const char* title = frame.Tr(number.title);
    columns[kNumTexts + at] = {.title = title,
                               .least = widgets::NumbersWidth(frame.look, title, number.widest),
                               .flags = ImGuiTableColumnFlags_PreferSortDescending,
                               .id = number.id,
                               .tip = frame.Tr(number.tip),
                               .is_number = true};
  }
  return columns;
}

}  // namespace

void CollectivesPanel::DrawChoices(const CollectivesFrame& frame) {
  const int clicked = widgets::Segmented(
      frame.look, "rows",
      {.options = {frame.Tr(Text::kCollectivesEach), frame.Tr(Text::kCollectivesByKind),
                   frame.Tr(Text::kCollectivesByUnit), frame.Tr(Text::kCollectivesByDimension),
                   frame.Tr(Text::kCollectivesByStep)},
       .chosen = static_cast<int>(shown_),
       .width = frame.look.Px(430)});
  if (clicked >= 0) shown_ = static_cast<Rows>(clicked);
  const bool is_emulated =
      std::any_of(frame.table().groups.begin(), frame.table().groups.end(),
                  [](const CollectiveGroup& group) { return group.sums.is_emulated; });
  if (!is_emulated) return;
  const ImVec2 row = ImGui::GetItemRectMin();
  const float end = ImGui::GetItemRectMax().x;
  const float right = ImGui::GetCursorScreenPos().x + widgets::ContentWidth();
  const char* text = frame.Tr(Text::kCollectivesEmulated);
  const widgets::TextStyle style = widgets::DimOf(frame.look);
  const bool is_beside =
      end + frame.look.Px(10) + widgets::TextSize(frame.look, style, text).x <= right;
  frame.log->Text(
      "emulated", text,
      is_beside ? widgets::DrawTextRight(frame.look, style, {right, row.y + frame.look.Px(4)}, text)
                : widgets::Paragraph(frame.look, style, text));
}

void CollectivesPanel::Update(const CollectivesFrame& frame) {
  if (made_of_ == frame.context.collectives && made_for_ == shown_) return;
  made_of_ = frame.context.collectives;
  made_for_ = shown_;
  rows_.clear();
  if (shown_ == Rows::kByStep) {
    for (const analysis::CollectiveStep& step : made_of_->steps) {
      rows_.push_back({{.key = {}, .sums = step.sums}, step.step});
    }
  } else {
    const auto merge = static_cast<analysis::CollectiveMerge>(shown_);
    for (CollectiveGroup& group : Merged(made_of_->groups, merge)) {
      rows_.push_back({std::move(group), -1});
    }
  }
  Sort(frame);
}

void CollectivesPanel::Sort(const CollectivesFrame& frame) {
  if (order_.column < 0) return;
  const auto before = [&](const CollectiveRow& a, const CollectiveRow& b) {
    if (order_.column < kNumTexts) {
      if (a.step != b.step) return a.step < b.step;
      const auto column = static_cast<size_t>(order_.column);
      return TextsOf(a)[column] < TextsOf(b)[column];
    }
    const auto column = static_cast<size_t>(order_.column - kNumTexts);
    return NumbersOf(a.group.sums, RankStepsOf(frame.table(), a))[column] <
           NumbersOf(b.group.sums, RankStepsOf(frame.table(), b))[column];
  };
  std::stable_sort(rows_.begin(), rows_.end(), [&](const CollectiveRow& a, const CollectiveRow& b) {
    return order_.descending ? before(b, a) : before(a, b);
  });
}

void CollectivesPanel::DrawTable(const CollectivesFrame& frame, float height) {
  const auto columns = ColumnsOf(frame, shown_ == Rows::kByStep);
  if (widgets::BeginTable("groups", columns, widgets::kSortedTable, {0, height})) {
    if (widgets::TakeOrder(&order_)) made_of_ = nullptr;
    Update(frame);
    widgets::HeaderRow(frame.look, columns, order_.column, frame.log);
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(rows_.size()));
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
        DrawRow(frame, rows_[static_cast<size_t>(at)], at);
      }
    }
    ImGui::EndTable();
  }
}

void CollectivesPanel::DrawChart(const CollectivesFrame& frame) {
  widgets::Gap(frame.look, 4);
  const int clicked = widgets::Segmented(
      frame.look, "chart",
      {.options = {frame.Tr(Text::kCollectivesPoints), frame.Tr(Text::kCollectivesMatrix)},
       .chosen = shows_matrix_ ? 1 : 0,
       .width = frame.look.Px(300)});
  if (clicked >= 0) shows_matrix_ = clicked == 1;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float height = std::max(room.y, frame.look.Px(kLeastPlot));
  const ui::Box box{at.x, at.y + frame.look.Px(4), at.x + room.x, at.y + height};
  if (shows_matrix_) {
    matrix_.Draw(frame.context, box, frame.log, frame.commands);
  } else {
    DrawCollectiveScatter(frame.context, box, frame.log, frame.commands);
  }
  if (height <= room.y) return;
  ImGui::SetCursorScreenPos({box.x0, box.y1});
  ImGui::Dummy({0, 0});
}

void CollectivesPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const CollectivesFrame frame{{context, widgets::LookOf(context), log, commands}};
  if (context.snapshot == nullptr) return frame.Empty(Text::kCollectivesEmpty);
  const bool has_dumps = DrawHangTables(frame);
  if (has_dumps && (context.collectives == nullptr || context.collectives->groups.empty())) return;
  if (context.collectives == nullptr) return frame.Empty(Text::kCollectivesMaking);
  if (context.collectives->groups.empty()) {
    return frame.Empty(ui::IsRecordedWithoutSteps(context) ? Text::kRecordedNoSteps
                                                           : Text::kCollectivesNone);
  }
  widgets::Gap(frame.look, 4);
  DrawChoices(frame);
  widgets::Gap(frame.look, 4);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float scatter = room.y * kScatterShare;
  const float table = std::max(room.y - scatter - frame.look.Px(10), frame.look.Px(kLeastTable));
  DrawTable(frame, table);
  DrawChart(frame);
}

ui::TableMaker CollectivesPanel::AsTable(const ui::Context& context) const {
  if (made_of_ == nullptr || made_of_ != context.collectives) return nullptr;
  return [rows = rows_, of = made_of_] {
    ui::Table table{{"step", "collective", "unit", "ranks"}, {}};
    for (const NumberColumn& column : kNumbers) {
      table.columns.push_back(std::string(column.id) + NameOfUnit(column.unit));
    }
    for (const CollectiveRow& row : rows) {
      const analysis::CollectiveGroupKey& key = row.group.key;
      std::vector<std::string>& cells = table.rows.emplace_back();
      cells = {row.step < 0 ? "" : std::to_string(row.step), key.kind, key.unit, key.communicator};
      for (const double number : NumbersOf(row.group.sums, RankStepsOf(*of, row))) {
        cells.push_back(ui::ExactText(number));
      }
    }
    return table;
  };
}

}  // namespace shardscope::panels
