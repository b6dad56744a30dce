#include "app/command_sql.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/say.h"
#include "app/sql_names.h"
#include "trace/base/text.h"
#include "trace/store/run_database.h"
#include "trace/store/run_folder.h"

namespace shardscope::app {
namespace {

using store::Statement;

struct SqlArguments {
  std::string run;
  std::string query;
  bool json = false;
  bool csv = false;
};

// Short enough for a table, exact enough for a millisecond figure; JSON and CSV have all digits.
std::string FormatReal(double value) { return fmt::format("{:.6g}", value); }

std::string CellText(const Statement& row, int column, bool exact) {
  switch (row.ColumnType(column)) {
    case Statement::Type::kInteger:
      return fmt::format("{}", row.Integer(column));
    case Statement::Type::kReal:
      return exact ? fmt::format("{}", row.Real(column)) : FormatReal(row.Real(column));
    case Statement::Type::kText:
      return std::string(row.Text(column));
    case Statement::Type::kBlob:
      return fmt::format("<{} bytes>", row.Text(column).size());
    case Statement::Type::kNull:
      break;
  }
  return "";
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

nlohmann::json JsonCell(const Statement& row, int column) {
  switch (row.ColumnType(column)) {
    case Statement::Type::kInteger:
      return row.Integer(column);
    case Statement::Type::kReal:
      return row.Real(column);
    case Statement::Type::kNull:
      return nullptr;
    default:
      return CellText(row, column, true);
  }
}

// Where the rows go, one at a time; the table needs all of them for its widths.
class Output {
 public:
  explicit Output(const SqlArguments& arguments) : json_(arguments.json), csv_(arguments.csv) {}

  void Header(const Statement& statement) {
    for (int i = 0; i < statement.NumColumns(); ++i) names_.push_back(statement.ColumnName(i));
    if (json_) PrintExact("[");
    if (csv_) PrintCsv(names_);
  }

  // false: no more can be printed.
  bool Row(const Statement& statement) {
    if (json_) {
      nlohmann::ordered_json object = nlohmann::ordered_json::object();
      for (size_t i = 0; i < names_.size(); ++i) {
        object[names_[i]] = JsonCell(statement, static_cast<int>(i));
      }
      const bool is_first = std::exchange(first_, false);
      return PrintExact((is_first ? "\n" : ",\n") +
                        object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    std::vector<std::string> cells;
    for (int i = 0; i < statement.NumColumns(); ++i) {
      cells.push_back(CellText(statement, i, csv_));
      if (!csv_) cells.back() = Printable(cells.back(), "\n\t");
      const Statement::Type type = statement.ColumnType(i);
      if (type == Statement::Type::kText) text_column_.insert(i);
    }
    if (csv_) return PrintCsv(cells);
    rows_.push_back(std::move(cells));
    return true;
  }

  void End() {
    if (json_) PrintExact("\n]\n");
    if (!json_ && !csv_) PrintTable();
  }

 private:
  static bool PrintCsv(const std::vector<std::string>& cells) {
    std::vector<std::string> quoted;
    for (const std::string& cell : cells) quoted.push_back(CsvCell(cell));
    return PrintExact(Join(quoted, ",") + "\n");
  }

  void PrintTable() const {
    std::vector<size_t> widths;
    for (const std::string& name : names_) widths.push_back(TerminalWidth(name));
    for (const std::vector<std::string>& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], TerminalWidth(row[i]));
    }
    PrintRow(names_, widths);
    for (const std::vector<std::string>& row : rows_) PrintRow(row, widths);
  }

  // Numbers to the right, text to the left.
  void PrintRow(const std::vector<std::string>& row, const std::vector<size_t>& widths) const {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const std::string padding(widths[i] - TerminalWidth(row[i]), ' ');
      line += text_column_.contains(static_cast<int>(i)) ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    Print(line + "\n");
  }

  const bool json_;
  const bool csv_;
  bool first_ = true;
  std::vector<std::string> names_;
  std::set<int> text_column_;
  std::vector<std::vector<std::string>> rows_;
};

Status RunSql(const SqlArguments& arguments) {
  const Result<store::RunFolder> run = store::FindRun(arguments.run);
  if (!run.ok()) return run.status();
  Result<store::Database> database = store::OpenRunDatabase(run.value());
  if (!database.ok()) return database.status();
  std::string_view rest;
  Result<Statement> statement = database->Prepare(arguments.query, &rest);
  if (!statement.ok()) {
    return Status::Error(WithNames(statement.message(), arguments.query, &*database));
  }
  if (Trim(rest).find_first_not_of("; \t\r\n") != std::string_view::npos) {
    return Status::Error("give one SQL statement at a time");
  }
  if (!statement->ReadOnly() || statement->NumColumns() == 0) {
    return Status::Error(
        "a trace is only read: give a SELECT (docs/trace.md lists tables and views)");
  }
  Output output(arguments);
  // The first row before the header, so that an error prints no half table.
  Result<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  output.Header(*statement);
  while (row.value()) {
    if (!output.Row(*statement)) return Status::Ok();
    row = statement->Step();
    if (!row.ok()) return row.status();
  }
  output.End();
  return Status::Ok();
}

}  // namespace

void AddSqlCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("sql", "Query a run's trace in SQL, live or finished");
  const auto arguments = std::make_shared<SqlArguments>();
  command->add_option("run", arguments->run, "Run folder or trace file")
      ->required()
      ->type_name("RUN");
  command->add_option("query", arguments->query, "One SELECT; docs/trace.md lists tables and views")
      ->required()
      ->type_name("SELECT");
  CLI::Option* json = command->add_flag("--json", arguments->json, "An array of objects");
  command->add_flag("--csv", arguments->csv, "Comma-separated values with a header")
      ->excludes(json);
  command->callback([arguments, exit_code] {
    const Status status = RunSql(*arguments);
    if (!status.ok()) Say("shardscope sql: " + status.message());
    *exit_code = status.ok() ? 0 : 1;
  });
}

}  // namespace shardscope::app
