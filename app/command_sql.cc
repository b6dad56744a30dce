#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/base/csv_row.h"
#include "trace/base/text.h"
#include "trace/query/select.h"
#include "trace/store/run_files.h"

namespace shardscope::app {
namespace {

using store::Statement;

struct SqlArguments {
  std::string run;
  std::string query;
  bool json = false;
  bool csv = false;
};

nlohmann::json JsonCell(const query::Cell& cell) {
  if (const auto* integer = std::get_if<int64_t>(&cell)) return *integer;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

// Members of an object, of which one with the name of another would replace it: the second `rank`
// is `rank_2`. A name that a column has itself is given to no other.
std::vector<std::string> UniqueNames(const std::vector<std::string>& names) {
  std::set<std::string> taken(names.begin(), names.end());
  std::set<std::string> seen;
  std::vector<std::string> unique;
  for (const std::string& name : names) {
    std::string own = name;
    if (!seen.insert(name).second) {
      for (int number = 2; !taken.insert(own).second; ++number) {
        own = fmt::format("{}_{}", name, number);
      }
    }
    unique.push_back(std::move(own));
  }
  return unique;
}

// Where the rows go, one at a time. A table takes its widths from its first rows, which wait for
// one another; a later cell that is wider pushes what is behind it on its own line.
class Output {
 public:
  explicit Output(const SqlArguments& arguments) : json_(arguments.json), csv_(arguments.csv) {}

  void Header(const Statement& statement) {
    for (int i = 0; i < statement.NumColumns(); ++i) names_.push_back(statement.ColumnName(i));
    if (json_) names_ = UniqueNames(names_);
    if (json_) PrintExact("[");
    if (csv_) PrintCsv(names_);
    if (!json_ && !csv_) Hold(names_);
  }

  // false: no more can be printed.
  bool Row(const Statement& statement) {
    if (json_) {
      nlohmann::ordered_json object = nlohmann::ordered_json::object();
      for (size_t i = 0; i < names_.size(); ++i) {
        object[names_[i]] = JsonCell(query::CellOf(statement, static_cast<int>(i)));
      }
      const bool is_first = std::exchange(first_, false);
      return PrintExact((is_first ? "\n" : ",\n") +
                        object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    std::vector<std::string> cells;
    for (int i = 0; i < statement.NumColumns(); ++i) {
      const query::Cell cell = query::CellOf(statement, i);
      cells.push_back(csv_ ? query::ExactText(cell) : Printable(query::ShownText(cell), "\n\t"));
    }
    if (csv_) return PrintCsv(cells);
    if (!holds_) return PrintRow(cells);
    for (int i = 0; i < statement.NumColumns(); ++i) {
      if (statement.ColumnType(i) == Statement::Type::kText) text_column_.insert(i);
    }
    Hold(std::move(cells));
    if (held_.size() <= kRowsOfWidths && held_bytes_ < kBytesOfWidths) return true;
    return PrintHeld();
  }

  void End() {
    if (json_) PrintExact("\n]\n");
    if (holds_ && !json_ && !csv_) PrintHeld();
  }

 private:
  static constexpr size_t kRowsOfWidths = 1000;  // a screen of rows, many times over
  static constexpr size_t kBytesOfWidths = size_t{1} << 22;

  static bool PrintCsv(const std::vector<std::string>& cells) {
    return PrintExact(CsvRow(cells) + "\n");
  }

  void Hold(std::vector<std::string> row) {
    widths_.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      widths_[i] = std::max(widths_[i], TerminalWidth(row[i]));
      held_bytes_ += row[i].size();
    }
    held_.push_back(std::move(row));
  }

  bool PrintHeld() {
    holds_ = false;
    for (const std::vector<std::string>& row : std::exchange(held_, {})) {
      if (!PrintRow(row)) return false;
    }
    // A slow statement's first rows are seen before its next ones are found.
    return FlushOutput();
  }

  // Numbers to the right, text to the left.
  bool PrintRow(const std::vector<std::string>& row) const {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const size_t width = TerminalWidth(row[i]);
      const std::string padding(widths_[i] - std::min(widths_[i], width), ' ');
      line += text_column_.contains(static_cast<int>(i)) ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return Print(line + "\n");
  }

  const bool json_;
  const bool csv_;
  bool first_ = true;
  std::vector<std::string> names_;
  bool holds_ = true;  // the first rows of a table, the header too
  size_t held_bytes_ = 0;
  std::vector<std::vector<std::string>> held_;
  std::vector<size_t> widths_;
  std::set<int> text_column_;
};

Status RunSql(const SqlArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string path, RunOfPath(arguments.run));
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(query::PreparedSelect select,
                              query::PrepareSelect(run, arguments.query));
  Statement& statement = select.statement;
  Output output(arguments);
  // The first row before the header, so that an error prints no half table.
  Result<bool> row = statement.Step();
  if (!row.ok()) return row.status();
  output.Header(statement);
  while (row.value()) {
    if (!output.Row(statement)) return Status::Ok();
    row = statement.Step();
    if (!row.ok()) return row.status();
  }
  output.End();
  return Status::Ok();
}

}  // namespace

void AddSqlCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("sql", "Query a run's trace in SQL, live or finished");
  const auto arguments = std::make_shared<SqlArguments>();
  AddRunArgument(command, &arguments->run);
  command->add_option("query", arguments->query, "One SELECT; docs/trace.md lists tables and views")
      ->required()
      ->type_name("SELECT");
  CLI::Option* json = command->add_flag(
      "--json", arguments->json, "An array of objects; the second column of a name is NAME_2");
  command->add_flag("--csv", arguments->csv, "Comma-separated values with a header")
      ->excludes(json);
  command->callback([arguments, exit_code] { *exit_code = EndCommand("sql", RunSql(*arguments)); });
}

}  // namespace shardscope::app
