#include "ui/widgets/tables.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace shardscope::widgets {
namespace {

constexpr float kSortArrow = 12;
constexpr float kRoundingError = 0.5F;  // pixels, of places that were added up

// Between two columns.
float ColumnGap() { return 2 * ImGui::GetStyle().CellPadding.x; }

// Dear ImGui gives columns whole pixels.
float Whole(float least) { return std::ceil(least) + 1; }

// `sorted`: beside the arrow of the order.
void NumberHeader(const Look& look, const char* title, bool sorted) {
  const ui::Box line = CellLine();
  ImGui::PushID(title);
  ImGui::TableHeader("##header");
  ImGui::PopID();
  const float arrow = sorted ? look.Px(kSortArrow) : 0;
  DrawTextRight(look, TextOf(look), {line.x1 - arrow, line.y0}, title);
}

}  // namespace

float NumbersWidth(const Look& look, const char* title, std::string_view widest) {
  const TextStyle style = TextOf(look);
  return std::max(TextSize(look, style, title).x + look.Px(kSortArrow),
                  TextSize(look, style, widest).x);
}

float LeastWidth(std::span<const TableColumn> columns) {
  float width = -ColumnGap();
  for (const TableColumn& column : columns) width += Whole(column.least) + ColumnGap();
  return width;
}

bool BeginTable(const char* id, std::span<const TableColumn> columns, ImGuiTableFlags flags,
                ImVec2 size) {
  const float bar = (flags & ImGuiTableFlags_ScrollY) != 0 ? ImGui::GetStyle().ScrollbarSize : 0;
  const float room = (size.x > 0 ? size.x : ContentWidth()) - bar;
  const float needed = LeastWidth(columns);
  const float left = std::max(room - needed, 0.0F);
  if (needed > room) flags |= ImGuiTableFlags_ScrollX;
  if (!ImGui::BeginTable(id, static_cast<int>(columns.size()), flags, size, needed)) return false;
  ImGui::TableSetupScrollFreeze(1, 1);
  float weights = 0;
  for (const TableColumn& column : columns) weights += column.weight;
  for (const TableColumn& column : columns) {
    ImGui::TableSetupColumn(column.title, column.flags | ImGuiTableColumnFlags_WidthStretch,
                            Whole(column.least) + left * column.weight / weights);
  }
  return true;
}

float TableHeight(std::span<const TableColumn> columns, int rows, float width) {
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float bar = LeastWidth(columns) > width ? ImGui::GetStyle().ScrollbarSize : 0;
  return std::ceil(static_cast<float>(rows) * line + bar);
}

ui::Box CellLine() {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  return {at.x, at.y, at.x + ImGui::GetContentRegionAvail().x, at.y + ImGui::GetTextLineHeight()};
}

ui::Box TextCell(std::string_view text) {
  const ui::Box line = CellLine();
  const char* end = text.data() + text.size();
  const ImVec2 size = ImGui::CalcTextSize(text.data(), end);
  const float room = std::max(line.x1 - line.x0, 0.0F);
  if (size.x <= room + kRoundingError) {
    ImGui::TextUnformatted(text.data(), end);
    return line;
  }
  ImGui::Dummy({room, size.y});
  ImGui::RenderTextEllipsis(ImGui::GetWindowDrawList(), {line.x0, line.y0},
                            {line.x0 + room, line.y1}, line.x0 + room, text.data(), end, &size);
  return line;
}

ui::Box NumberCell(std::string_view text) {
  const ui::Box line = CellLine();
  const float width = ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
  const float room = line.x1 - line.x0 - width;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  TextCell(text);
  return line;
}

ui::Box HeaderCell(std::string_view title) {
  const ui::Box line = CellLine();
  ImGui::PushID(ImGui::TableGetColumnIndex());
  ImGui::TableHeader("##header");
  ImGui::PopID();
  const bool is_hovered = ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal);
  const char* end = title.data() + title.size();
  const ImVec2 size = ImGui::CalcTextSize(title.data(), end);
  ImGui::RenderTextEllipsis(ImGui::GetWindowDrawList(), {line.x0, line.y0}, {line.x1, line.y1},
                            line.x1, title.data(), end, &size);
  // A double click on its border makes the column as wide.
  ImGuiTable* const table = ImGui::GetCurrentTable();
  float& ideal = table->Columns[table->CurrentColumn].ContentMaxXHeadersIdeal;
  ideal = std::max(ideal, line.x0 + size.x);
  if (is_hovered && size.x > line.x1 - line.x0 + kRoundingError) {
    ImGui::SetTooltip("%.*s", static_cast<int>(title.size()), title.data());
  }
  return line;
}

void HeaderRow(const Look& look, std::span<const TableColumn> columns, int sorted_by,
               ui::DrawLog* log) {
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (int at = 0; at < static_cast<int>(columns.size()); ++at) {
    if (!ImGui::TableSetColumnIndex(at)) continue;
    const TableColumn& column = columns[static_cast<size_t>(at)];
    if (column.is_number) {
      NumberHeader(look, column.title, at == sorted_by);
    } else {
      ImGui::TableHeader(column.title);
    }
    if (column.id != nullptr) {
      log->Text(std::string("header:") + column.id, column.title,
                ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
    }
    if (column.tip != nullptr && ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) {
      ImGui::SetTooltip("%s", column.tip);
    }
  }
}

bool TakeOrder(TableOrder* order) {
  ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
  if (specs == nullptr || !specs->SpecsDirty) return false;
  order->column = specs->SpecsCount > 0 ? specs->Specs[0].ColumnIndex : -1;
  order->descending =
      specs->SpecsCount > 0 && specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
  specs->SpecsDirty = false;
  return true;
}

}  // namespace shardscope::widgets
