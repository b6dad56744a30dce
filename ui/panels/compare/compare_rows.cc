#include "ui/panels/compare/compare_rows.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "trace/query/find_op_run.h"
#include "ui/panels/compare/compare_words.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {
namespace {

using analysis::ComparedRow;
using ui::Text;

enum CompareColumn : int {
  kWhatColumn,
  kPhaseColumn,
  kUnitColumn,
  kStateColumn,
  kAColumn,
  kBColumn,
  kDifferenceColumn,
  kBarColumn,
  kNumCompareColumns
};

std::string UnitText(const ComparedRow& row) {
  return row.b_unit.empty() ? row.key.unit : fmt::format("{} = {}", row.key.unit, row.b_unit);
}

std::string RowText(const CompareFrame& frame, const ComparedRow& row, int column) {
  switch (column) {
    case kWhatColumn:
      return WhatWords(frame.context.language, row.key);
    case kPhaseColumn:
      return PhaseWord(frame.context.language, row.key.phase);
    case kUnitColumn:
      return UnitText(row);
    default:
      return StateWord(frame.context.language, row);
  }
}

// The idle time of the row, which ends where its op begins.
std::optional<timeline::Range> GapBefore(const query::Snapshot& snapshot,
                                         const analysis::RowPlace& place) {
  const auto run = query::FindOpRun(snapshot, place.rank, place.op_run);
  if (!run) return std::nullopt;
  return timeline::Range{run->started_ns - place.length_ns, run->started_ns};
}

double RowNumber(const ComparedRow& row, int column) {
  if (column == kAColumn) return row.on_path.a_ns;
  return column == kBColumn ? row.on_path.b_ns : row.on_path.ns();
}

std::array<widgets::TableColumn, kNumCompareColumns> RowColumns(const CompareFrame& frame) {
  constexpr auto kNumber = ImGuiTableColumnFlags_PreferSortDescending;
  const auto text = [&](Text title, float least, float weight, const char* id) {
    return widgets::TableColumn{
        .title = frame.Tr(title), .least = frame.look.Px(least), .weight = weight, .id = id};
  };
  const auto number = [&](const char* title, const char* widest, const char* id) {
    return widgets::TableColumn{.title = title,
                                .least = widgets::NumbersWidth(frame.look, title, widest),
                                .weight = 0.8F,
                                .flags = kNumber,
                                .id = id,
                                .is_number = true};
  };
  return {text(Text::kCompareWhat, 140, 2.4F, "what"),
          text(Text::kComparePhase, 54, 0.9F, "phase"),
          text(Text::kCompareUnit, 48, 1.1F, "unit"),
          text(Text::kCompareState, 40, 0.7F, "state"),
          number("A", kWidestTime, "a"),
          number("B", kWidestTime, "b"),
          number(frame.Tr(Text::kCompareDifference), kWidestDifference, "difference"),
          {.title = frame.Tr(Text::kCompareBar),
           .least = frame.look.Px(kLeastDifferenceBar),
           .weight = 1.2F,
           .flags = kNumber,
           .id = "bar"}};
}

}  // namespace

void CompareRows::Update(const CompareFrame& frame) {
  if (made_of_ == frame.context.compare.made && !order_.empty()) return;
  made_of_ = frame.context.compare.made;
  const std::vector<ComparedRow>& rows = frame.comparison().rows;
  order_.resize(rows.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (sorted_.column < 0) return;
  const auto before = [&](size_t x, size_t y) {
    if (sorted_.column <= kStateColumn) {
      return RowText(frame, rows[x], sorted_.column) < RowText(frame, rows[y], sorted_.column);
    }
    return RowNumber(rows[x], sorted_.column) < RowNumber(rows[y], sorted_.column);
  };
  std::stable_sort(order_.begin(), order_.end(), [&](size_t x, size_t y) {
    return sorted_.descending ? before(y, x) : before(x, y);
  });
}

void CompareRows::Show(const CompareFrame& frame, const ComparedRow& row) {
  said_.clear();
  const bool is_idle = row.key.part == analysis::StepPart::kIdle;
  const std::string name =
      fmt::format("{} {}", WhatWords(frame.context.language, row.key), UnitText(row));
  if (!row.place.op_run.is_none()) {
    frame.commands->push_back(ui::ShowOp{row.place.op_run, row.place.rank});
    const auto gap = is_idle ? GapBefore(*frame.context.snapshot, row.place) : std::nullopt;
    if (gap) {
      const timeline::Range fit = timeline::FitWithMargin(*gap);
      frame.commands->push_back(ui::SetView{fit.start_ns, fit.end_ns, true, false});
    }
    return;
  }
  said_ = ui::TrFormat(frame.context.language, is_idle ? Text::kCompareNoOp : Text::kCompareOnlyInB,
                       name);
}

void CompareRows::DrawRow(const CompareFrame& frame, size_t at) {
  const ComparedRow& row = frame.comparison().rows[order_[at]];
  const std::string name = RowName(row.key);
  ImGui::TableNextRow();
  ImGui::PushID(static_cast<int>(order_[at]));
  ImGui::TableNextColumn();
  const ImVec2 start = ImGui::GetCursorPos();
  if (ImGui::Selectable("##row", false, ImGuiSelectableFlags_SpanAllColumns)) Show(frame, row);
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal)) {
    ImGui::SetTooltip("%s", frame.Tr(Text::kCompareRowTip));
  }
  frame.log->Text(fmt::format("row:{}", at), name,
                  widgets::ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
  ImGui::SetCursorPos(start);
  for (int column = kWhatColumn; column <= kStateColumn; ++column) {
    if (column > kWhatColumn) ImGui::TableNextColumn();
    const std::string text = RowText(frame, row, column);
    const ui::Box box = widgets::TextCell(text);
    if (column == kStateColumn) frame.log->Text("state:" + name, text, box);
  }
  DeltaCells(frame, "", name, row.on_path);
  const double most_ns = std::abs(frame.comparison().rows.front().on_path.ns());
  DifferenceBarCell(frame, row.on_path, most_ns);
  ImGui::PopID();
}

void CompareRows::Draw(const CompareFrame& frame, ImVec2 size) {
  if (made_of_ != frame.context.compare.made) said_.clear();
  if (!said_.empty()) {
    const ui::Box said = widgets::Paragraph(frame.look, widgets::DimOf(frame.look), said_);
    frame.log->Text("said", said_, said);
    size.y -= said.y1 - said.y0 + ImGui::GetStyle().ItemSpacing.y;
  }
  const auto columns = RowColumns(frame);
  if (widgets::BeginTable("rows", columns, widgets::kSortedTable, size)) {
    if (widgets::TakeOrder(&sorted_)) order_.clear();
    Update(frame);
    widgets::HeaderRow(frame.look, columns, sorted_.column, frame.log);
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(order_.size()));
    while (clipper.Step()) {
      for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
        DrawRow(frame, static_cast<size_t>(at));
      }
    }
    ImGui::EndTable();
  }
}

float CompareRows::LeastWidth(const CompareFrame& frame) {
  return widgets::LeastWidth(RowColumns(frame)) + ImGui::GetStyle().ScrollbarSize;
}

ui::TableMaker CompareRows::AsTable(const ui::Context& context) const {
  if (made_of_ == nullptr || made_of_ != context.compare.made) return nullptr;
  return [made = made_of_, order = order_] {
    ui::Table table{{"part", "kind", "phase", "unit", "b_unit", "communicator", "a_ns", "b_ns",
                     "difference_ns", "low_ns", "high_ns", "a_count", "b_count"},
                    {}};
    for (const size_t at : order) {
      const ComparedRow& row = made->comparison.rows[at];
      const analysis::Delta& delta = row.on_path;
      table.rows.push_back({std::string(Name(row.key.part)), row.key.kind, row.key.phase,
                            row.key.unit, row.b_unit, row.key.communicator,
                            ui::ExactText(delta.a_ns), ui::ExactText(delta.b_ns),
                            ui::ExactText(delta.ns()), std::to_string(delta.shift.low_ns),
                            std::to_string(delta.shift.high_ns), ui::ExactText(row.a_count),
                            ui::ExactText(row.b_count)});
    }
    return table;
  };
}

}  // namespace shardscope::panels
