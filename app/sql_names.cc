#include "app/sql_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "trace/base/text.h"

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

}  // namespace

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

}  // namespace shardscope::app
