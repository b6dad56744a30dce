#include "ui/table.h"

#include <fmt/format.h>

#include <cmath>

#include "trace/base/csv_row.h"

namespace shardscope::ui {

std::string ExactText(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string PrintCsv(const Table& table) {
  std::string csv = CsvRow(table.columns) + "\r\n";
  for (const std::vector<std::string>& row : table.rows) csv += CsvRow(row) + "\r\n";
  return csv;
}

}  // namespace shardscope::ui
