#include "trace/query/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "trace/base/text.h"
#include "trace/store/catalogue.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
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

// None if they cannot be read.
std::vector<std::string> NamesOfType(store::Database* database, std::string_view type) {
  Result<std::vector<std::string>> names = store::NamesInDatabase(database, {type});
  return names.ok() ? std::move(*names) : std::vector<std::string>();
}

std::vector<std::string> ColumnsOf(store::Database* database, const std::string& table) {
  return NamesFrom(database, fmt::format("SELECT name FROM pragma_table_info('{}')", table));
}

std::set<std::string> WordsOf(const std::string& sql) {
  std::set<std::string> words;
  for (auto begin = sql.begin(); begin != sql.end();) {
    begin = std::find_if(begin, sql.end(), IsNameCharacter);
    const auto end = std::find_if_not(begin, sql.end(), IsNameCharacter);
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

// SQLite's `error` on `sql`. Of an unknown table it adds the tables and views that there are, of an
// unknown column the columns of those that the statement names, and the nearest name of both.
std::string WithNames(const std::string& error, const std::string& sql, store::Database* database) {
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
  const std::set<std::string> words = WordsOf(sql);
  std::vector<std::string> all;
  std::string lists;
  for (const std::string& table : both) {
    if (!words.contains(table)) continue;
    const std::vector<std::string> columns = ColumnsOf(database, table);
    lists += fmt::format(" {} has {}.", table, Join(columns, ", "));
    all.insert(all.end(), columns.begin(), columns.end());
  }
  return lists.empty() ? error : error + DidYouMean(*column, all) + lists;
}

}  // namespace

Result<PreparedSelect> PrepareSelect(const store::RunFiles& run, const std::string& sql) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database database, store::OpenRunDatabase(run));
  std::string_view rest;
  Result<store::Statement> statement = database.Prepare(sql, &rest);
  if (!statement.ok()) return Status::Error(WithNames(statement.message(), sql, &database));
  if (Trim(rest).find_first_not_of("; \t\r\n") != std::string_view::npos) {
    return Status::Error("give one SQL statement at a time");
  }
  if (!statement->ReadOnly() || statement->NumColumns() == 0) {
    return Status::Error(
        "a trace is only read: give a SELECT (docs/trace.md lists tables and views)");
  }
  return PreparedSelect{std::move(database), std::move(statement).value()};
}

std::string ExactText(const Cell& cell) {
  if (const auto* integer = std::get_if<int64_t>(&cell)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{}", *real);
  const auto* text = std::get_if<std::string>(&cell);
  return text == nullptr ? "" : *text;
}

std::string ShownText(const Cell& cell) {
  const auto* real = std::get_if<double>(&cell);
  return real != nullptr ? fmt::format("{:.6g}", *real) : ExactText(cell);
}

Cell CellOf(const store::Statement& row, int column) {
  using Type = store::Statement::Type;
  switch (row.ColumnType(column)) {
    case Type::kInteger:
      return row.Integer(column);
    case Type::kReal:
      return row.Real(column);
    case Type::kText:
      return std::string(row.Text(column));
    case Type::kBlob:
      return fmt::format("<{} bytes>", row.Text(column).size());
    case Type::kNull:
      break;
  }
  return std::monostate();
}

Result<SelectedRows> Select(const std::string& path, const std::string& sql, size_t max_rows,
                            const std::stop_token& stop) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(PreparedSelect select, PrepareSelect(run, sql));
  select.database.StopWhen(stop);
  SelectedRows selected;
  store::Statement& statement = select.statement;
  for (int i = 0; i < statement.NumColumns(); ++i) {
    selected.names.push_back(statement.ColumnName(i));
  }
  const auto is_ms = [](const std::string& name) { return name.ends_with("_ms"); };
  if (std::ranges::any_of(selected.names, is_ms)) {
    SHARDSCOPE_ASSIGN_OR_RETURN(selected.origin_ns,
                                select.database.QueryInteger("SELECT origin_ns FROM v_origin"));
  }
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_row, statement.Step());
    if (!is_row) return selected;
    if (selected.rows.size() == max_rows) break;
    std::vector<Cell>& cells = selected.rows.emplace_back();
    for (int i = 0; i < statement.NumColumns(); ++i) cells.push_back(CellOf(statement, i));
  }
  selected.is_cut = true;
  return selected;
}

Result<std::vector<TableColumns>> TablesOf(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database database, store::OpenRunDatabase(run));
  std::vector<TableColumns> tables;
  for (const std::string_view type : {"view", "table"}) {
    for (const std::string& name : NamesOfType(&database, type)) {
      tables.push_back({name, type == "view", ColumnsOf(&database, name)});
    }
  }
  return tables;
}

}  // namespace shardscope::query
