// TextTable: columns of a report in a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace shardscope::analysis {

// Columns by width in characters (UTF-8 code points); the first `num_left` are aligned left.
class TextTable {
 public:
  using Row = std::vector<std::string>;

  explicit TextTable(Row head, size_t num_left) : num_left_(num_left) {
    rows_.push_back(std::move(head));
  }
  // As many cells as the head has, or fewer.
  void Add(Row row) { rows_.push_back(std::move(row)); }
  size_t size() const { return rows_.size() - 1; }

  std::string Print() const {
    std::vector<size_t> widths(rows_.front().size());
    for (const Row& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
    }
    std::string text;
    for (const Row& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - Width(row[i]), ' ');
        line += "  ";
        line += i < num_left_ ? row[i] + padding : padding + row[i];
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  static size_t Width(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    }));
  }
  size_t num_left_;
  std::vector<Row> rows_;
};

}  // namespace shardscope::analysis
