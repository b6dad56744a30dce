#include "ui/panels/collectives/hang_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "trace/analysis/report/report.h"
#include "trace/base/collective_names.h"
#include "ui/hang_words.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {
namespace {

using analysis::GroupHang;
using analysis::RankPosition;
using ui::Text;

constexpr size_t kListedGroups = 10;
constexpr int kNumPositionColumns = 6;
constexpr int kRowsAlwaysDrawn = 64;  // beyond, those in view

std::string SequenceText(int64_t sequence) {
  return sequence < 0 ? "–" : fmt::format("#{}", sequence);
}

std::array<widgets::TableColumn, kNumPositionColumns> PositionColumns(const PanelFrame& frame) {
  const auto number = [&](Text title) {
    return widgets::TableColumn{
        .title = frame.Tr(title),
        .least = widgets::NumbersWidth(frame.look, frame.Tr(title), "#88888"),
        .is_number = true};
  };
  const auto text = [&](Text title, float least, float weight) {
    return widgets::TableColumn{
        .title = frame.Tr(title), .least = frame.look.Px(least), .weight = weight};
  };
  return {number(Text::kHangRank),         number(Text::kHangCompleted),
          number(Text::kHangStarted),      number(Text::kHangAskedFor),
          text(Text::kHangWhat, 90, 1.5F), text(Text::kHangIn, 110, 3)};
}

void DrawPosition(const PanelFrame& frame, const std::string& group, const RankPosition& position) {
  ImGui::TableNextRow();
  ImGui::TableSetColumnIndex(0);
  const std::string id = fmt::format("hang:{}:{}", group, position.rank);
  widgets::NumberCell(std::to_string(position.rank));
  ImGui::TableSetColumnIndex(1);
  if (!position.has_dump) {
    frame.log->Text(id, frame.Tr(Text::kHangNoDump),
                    widgets::TextCell(frame.Tr(Text::kHangNoDump)));
    return;
  }
  widgets::NumberCell(SequenceText(position.last_completed));
  ImGui::TableSetColumnIndex(2);
  widgets::NumberCell(SequenceText(position.last_started));
  ImGui::TableSetColumnIndex(3);
  frame.log->Int(id, position.last_name, position.last_enqueued, "",
                 widgets::NumberCell(SequenceText(position.last_enqueued)));
  ImGui::TableSetColumnIndex(4);
  widgets::TextCell(position.last_name);
  ImGui::TableSetColumnIndex(5);
  widgets::TextCell(position.asked_at);
}

void DrawGroup(const PanelFrame& frame, const GroupHang& group) {
  const std::string name = SaysPurpose(group.description)
                               ? fmt::format("{} ({})", group.name, group.description)
                               : group.name;
  widgets::Gap(frame.look, 4);
  frame.Say("hang_group:" + group.name, widgets::BoldOf(frame.look),
            ui::TrFormat(frame.context.language, Text::kHangGroup, name));
  const auto columns = PositionColumns(frame);
  const auto num_rows = static_cast<int>(group.positions.size());
  const float height = widgets::TableHeight(columns, num_rows + 1, widgets::ContentWidth());
  const std::string id = "hang_group_" + group.name;
  if (!widgets::BeginTable(id.c_str(), columns,
                           ImGuiTableFlags_RowBg | ImGuiTableFlags_NoSavedSettings, {0, height})) {
    return;
  }
  widgets::HeaderRow(frame.look, columns, -1, frame.log);
  ImGuiListClipper clipper;
  clipper.Begin(num_rows);
  clipper.IncludeItemsByIndex(0, std::min(num_rows, kRowsAlwaysDrawn));
  while (clipper.Step()) {
    for (int at = clipper.DisplayStart; at < clipper.DisplayEnd; ++at) {
      DrawPosition(frame, group.name, group.positions[static_cast<size_t>(at)]);
    }
  }
  ImGui::EndTable();
}

// Else what it sends and receives is told in words.
bool HasPositions(const GroupHang& group) {
  return std::ranges::any_of(
      group.positions, [](const RankPosition& position) { return position.last_enqueued >= 0; });
}

}  // namespace

bool DrawHangTables(const PanelFrame& frame) {
  if (frame.context.report == nullptr || frame.context.report->hang.groups.empty()) return false;
  const analysis::Hang& hang = frame.context.report->hang;
  widgets::Gap(frame.look, 4);
  frame.Say("hang", widgets::TextOf(frame.look), ui::HangSentence(frame.context.language, hang));
  for (size_t at = 0; at < std::min(hang.groups.size(), kListedGroups); ++at) {
    if (HasPositions(hang.groups[at])) DrawGroup(frame, hang.groups[at]);
  }
  if (hang.groups.size() > kListedGroups) {
    frame.Say("hang_more", widgets::DimOf(frame.look),
              ui::TrFormat(frame.context.language, Text::kHangMoreGroups,
                           hang.groups.size() - kListedGroups));
  }
  widgets::Gap(frame.look, 6);
  return true;
}

}  // namespace shardscope::panels
