// Table: what a panel lists, as text: for CSV files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::ui {

// Columns are named as in `report --json` ("exposed_ns") whatever the language; numbers are in
// nanoseconds and bytes with all their digits, and empty where there is none.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // in the order that is shown, a cell a column
};

// All digits that tell the number from others; empty for NaN.
std::string ExactText(double value);

// RFC 4180, with a line for the columns.
std::string PrintCsv(const Table& table);

}  // namespace shardscope::ui
