// Select: one SELECT over a run's trace, live or finished, for `shardscope sql` and the app alike.
// Nothing of the run can be changed by it.
//
// Threads: each call opens the trace anew; any number of threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/run_files.h"

namespace shardscope::query {

struct PreparedSelect {
  store::Database database;
  store::Statement statement;  // before its first row
};

// Errors: no trace; more or less than one statement, or one that changes something; SQLite's own,
// with the tables or columns that there are and the nearest name.
Result<PreparedSelect> PrepareSelect(const store::RunFiles& run, const std::string& sql);

// The text of a blob is "<N bytes>".
using Cell = std::variant<std::monostate, int64_t, double, std::string>;
Cell CellOf(const store::Statement& row, int column);
// For CSV: a real with as many digits as make it that one, "" for NULL.
std::string ExactText(const Cell& cell);
// For people: a real in six digits, exact enough for a millisecond figure; else ExactText().
std::string ShownText(const Cell& cell);

struct SelectedRows {
  std::vector<std::string> names;  // of the columns
  std::vector<std::vector<Cell>> rows;
  bool is_cut = false;               // there are more
  std::optional<int64_t> origin_ns;  // what columns in ms count from, if there are any
};

// `path`: a run folder or a trace file. At most `max_rows` of its rows. Once `stop` is asked for it
// ends with an error within a few thousand steps of SQLite's.
Result<SelectedRows> Select(const std::string& path, const std::string& sql, size_t max_rows,
                            const std::stop_token& stop);

struct TableColumns {
  std::string table;
  bool is_view = false;
  std::vector<std::string> columns;
};
// What a SELECT can be from: views, then tables, by name.
Result<std::vector<TableColumns>> TablesOf(const std::string& path);

}  // namespace shardscope::query
