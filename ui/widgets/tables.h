// Tables: columns as wide as what they hold, cells, headers, the order of rows.
#pragma once

#include <span>
#include <string_view>

#include "ui/draw_log.h"
#include "ui/widgets/look.h"

namespace shardscope::widgets {

// What a table whose rows the user sorts begins with.
inline constexpr ImGuiTableFlags kSortedTable =
    ImGuiTableFlags_ScrollY | ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate |
    ImGuiTableFlags_RowBg | ImGuiTableFlags_NoSavedSettings;

struct TableColumn {
  const char* title = nullptr;
  float least = 0;   // pixels, in which its texts and its title have room
  float weight = 1;  // of its part of what room is left
  ImGuiTableColumnFlags flags = 0;
  // Of HeaderRow():
  const char* id = nullptr;   // in the log of what was drawn; null: not logged
  const char* tip = nullptr;  // what it means, under the mouse; null: none
  bool is_number = false;     // titles of numbers stand at the right, as they do
};

// `least` of a column of numbers: the widest of them, and the title beside the arrow of the order.
float NumbersWidth(const Look& look, const char* title, std::string_view widest);

// Of a table, with the gaps between its columns.
float LeastWidth(std::span<const TableColumn> columns);

// ImGui::BeginTable() with its columns set up, and the row of titles standing still. In less than
// their least width they scroll to the side under the first one: a number that is cut reads as
// another number. `size`: of the table, a height of 0 only where it scrolls up and down.
bool BeginTable(const char* id, std::span<const TableColumn> columns, ImGuiTableFlags flags,
                ImVec2 size);

// Of such a table with so many rows, the one of titles too, which does not scroll up and down.
float TableHeight(std::span<const TableColumn> columns, int rows, float width);

// Of the cell of a table that is drawn in: the rest of its width, a line high.
ui::Box CellLine();

// In such a cell, at its left or, as numbers stand, at its right; with an ellipsis where it is too
// long. Each returns the cell's line.
ui::Box TextCell(std::string_view text);
ui::Box NumberCell(std::string_view text);

// A title that comes from a trace or a file, in the header's cell that is current; with an
// ellipsis, and all of it under the mouse, where it is too long. ImGui itself ends a title at "##".
// Columns of such titles are set up without a name.
ui::Box HeaderCell(std::string_view title);

// As ImGui::TableHeadersRow(), of such a table's columns. `sorted_by`: the column that has the
// arrow of the order, -1: none. Logs titles as "header:<id>".
void HeaderRow(const Look& look, std::span<const TableColumn> columns, int sorted_by,
               ui::DrawLog* log);

struct TableOrder {
  int column = -1;  // -1: as the rows are
  bool descending = true;
};
// Inside of such a table: true when its order is another one than in the frame before.
bool TakeOrder(TableOrder* order);

}  // namespace shardscope::widgets
