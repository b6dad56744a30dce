#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/base/text.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"

namespace shardscope::app {
namespace {

constexpr std::string_view kNoTable = "no such table: ";
constexpr std::string_view kNoColumn = "no such column: ";

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The word after `start` in the error, without the table or alias in front of a column.
std::optional<std::string> NameAfter(const std::string& error, std::string_view start) {
  const size_t at = error.find(start);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view name = std::string_view(error).substr(at + start.size());
  return std::string(name.substr(name.rfind('.') + 1));
}

// The first column of every row; none if the query fails.
std::vector<std::string> NamesFrom(store::Database* database, const std::string& sql) {
  std::vector<std::string> names;
  Result<store::Statement> select = database->Prepare(sql);
  if (!select.ok()) return names;
  Result<bool> row = select->Step();
  for (; row.ok() && *row; row = select->Step()) names.emplace_back(select->Text(0));
  return names;
}

std::vector<std::string> NamesOfType(store::Database* database, std::string_view type) {
  return NamesFrom(database,
                   fmt::format("SELECT name FROM (SELECT type, name FROM sqlite_schema UNION "
                               "SELECT type, name FROM sqlite_temp_schema) "
                               "WHERE type = '{}' AND name NOT LIKE 'sqlite_%' ORDER BY name",
                               type));
}

std::set<std::string> WordsOf(const std::string& query) {
  std::set<std::string> words;
  for (auto begin = query.begin(); begin != query.end();) {
    begin = std::find_if(begin, query.end(), IsNameCharacter);
    const auto end = std::find_if_not(begin, query.end(), IsNameCharacter);
    words.emplace(begin, end);
    begin = end;
  }
  return words;
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates) {
  std::optional<std::string> meant = NearestName(name, candidates);
  // "start" is start_ns.
  const auto longer = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const auto& other) { return other.starts_with(name); });
  if (!meant && longer != candidates.end()) meant = *longer;
  return meant ? fmt::format("; did you mean {}?", *meant) : ";";
}

// SQLite's `error` on `query`. Of an unknown table it adds the tables and views that there are, of
// an unknown column the columns of those that the query names, and the nearest name of both.
std::string WithNames(const std::string& error, const std::string& query,
                      store::Database* database) {
  const std::vector<std::string> tables = NamesOfType(database, "table");
  const std::vector<std::string> views = NamesOfType(database, "view");
  std::vector<std::string> both = views;
  both.insert(both.end(), tables.begin(), tables.end());
  if (const auto table = NameAfter(error, kNoTable)) {
    return fmt::format("{}{} There are the views {} and the tables {} (docs/trace.md)", error,
                       DidYouMean(*table, both), Join(views, ", "), Join(tables, ", "));
  }
  const auto column = NameAfter(error, kNoColumn);
  if (!column) return error;
  const std::set<std::string> words = WordsOf(query);
  std::vector<std::string> all;
  std::string lists;
  for (const std::string& table : both) {
    if (!words.contains(table)) continue;
    const std::vector<std::string> columns =
        NamesFrom(database, fmt::format("SELECT name FROM pragma_table_info('{}')", table));
    lists += fmt::format(" {} has {}.", table, Join(columns, ", "));
    all.insert(all.end(), columns.begin(), columns.end());
  }
  return lists.empty() ? error : error + DidYouMean(*column, all) + lists;
}

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

// Where the rows go, one at a time. A table takes its widths from its first rows, which wait for
// one another; a later cell that is wider pushes what is behind it on its own line.
class Output {
 public:
  explicit Output(const SqlArguments& arguments) : json_(arguments.json), csv_(arguments.csv) {}

  void Header(const Statement& statement) {
    for (int i = 0; i < statement.NumColumns(); ++i) names_.push_back(statement.ColumnName(i));
    if (json_) PrintExact("[");
    if (csv_) PrintCsv(names_);
    if (!json_ && !csv_) Hold(names_);
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
    std::vector<std::string> quoted;
    for (const std::string& cell : cells) quoted.push_back(CsvCell(cell));
    return PrintExact(Join(quoted, ",") + "\n");
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
  const Result<store::RunFiles> run = store::FindRun(path);
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
  command->add_option("run", arguments->run, "Run folder or trace file, or what `import` takes")
      ->required()
      ->type_name("RUN");
  command->add_option("query", arguments->query, "One SELECT; docs/trace.md lists tables and views")
      ->required()
      ->type_name("SELECT");
  CLI::Option* json = command->add_flag("--json", arguments->json, "An array of objects");
  command->add_flag("--csv", arguments->csv, "Comma-separated values with a header")
      ->excludes(json);
  command->callback([arguments, exit_code] { *exit_code = EndCommand("sql", RunSql(*arguments)); });
}

}  // namespace shardscope::app
