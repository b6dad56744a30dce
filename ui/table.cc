#include "ui/table.h"

#include <fmt/format.h>

#include <cmath>

#include "trace/base/text.h"

namespace shardscope::ui {
namespace {

void AddLine(const std::vector<std::string>& cells, std::string* csv) {
  for (size_t at = 0; at < cells.size(); ++at) {
    if (at > 0) *csv += ',';
    *csv += CsvField(cells[at]);
  }
  *csv += "\r\n";
}

}  // namespace

std::string ExactText(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string PrintCsv(const Table& table) {
  std::string csv;
  AddLine(table.columns, &csv);
  for (const std::vector<std::string>& row : table.rows) AddLine(row, &csv);
  return csv;
}

}  // namespace shardscope::ui
