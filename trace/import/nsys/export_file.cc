#include "trace/import/nsys/export_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trace/base/sane_time.h"
#include "trace/base/time.h"

namespace shardscope::imports {
namespace {

// An export has at least one of these.
constexpr std::array<std::string_view, 3> kMarks = {"META_DATA_EXPORT", "EXPORT_META_DATA",
                                                    "TARGET_INFO_SESSION_START_TIME"};

// Of a file that says no time of day: times of rows are from 1 on.
constexpr int64_t kUnknownStartNs = kNsPerSecond;

}  // namespace

std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

Result<ExportFile> ExportFile::Open(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database database,
                              store::Database::Open(path, store::Database::Mode::kReadOnly));
  ExportFile file(std::move(database));
  SHARDSCOPE_RETURN_IF_ERROR(file.ReadTables());
  const bool is_export =
      std::ranges::any_of(kMarks, [&](std::string_view mark) { return file.Has(mark); }) ||
      (file.Has("StringIds") && std::ranges::any_of(file.tables_, [](const auto& table) {
         return table.first.starts_with("CUPTI_ACTIVITY_KIND_") || table.first == "NVTX_EVENTS";
       }));
  if (!is_export) return Status::Error(path + " is no export of Nsight Systems");
  SHARDSCOPE_RETURN_IF_ERROR(file.PrepareTexts());
  if (file.Has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")) {
    SHARDSCOPE_ASSIGN_OR_RETURN(
        file.start_ns_,
        file.database_.QueryInteger("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"));
  }
  if (!IsSaneNs(file.start_ns_)) file.start_ns_ = kUnknownStartNs;
  return file;
}

Status ExportFile::ReadTables() {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      store::Statement tables,
      database_.Prepare("SELECT m.name, c.name FROM sqlite_master m "
                        "JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"));
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_row, tables.Step());
    if (!is_row) return Status::Ok();
    tables_[std::string(tables.Text(0))].emplace(tables.Text(1));
  }
}

Status ExportFile::PrepareTexts() {
  if (!Has("StringIds", "id") || !Has("StringIds", "value")) return Status::Ok();
  // By row id in what Nsight Systems writes; other tools drop keys when they copy tables.
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t is_key,
      database_.QueryInteger(
          "SELECT count(*) FROM pragma_table_info('StringIds') WHERE name = 'id' "
          "AND pk = 1 AND upper(type) = 'INTEGER'"));
  std::string_view table = "StringIds";
  if (is_key == 0) {
    SHARDSCOPE_RETURN_IF_ERROR(
        database_.Execute("CREATE TEMP TABLE texts(id INTEGER PRIMARY KEY, value TEXT);"
                          "INSERT OR IGNORE INTO texts SELECT id, value FROM StringIds WHERE "
                          "typeof(id) = 'integer'"));
    table = "temp.texts";
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(
      store::Statement text,
      database_.Prepare(fmt::format("SELECT value FROM {} WHERE id = ?1", table)));
  text_ = std::move(text);
  return Status::Ok();
}

bool ExportFile::Has(std::string_view table, std::string_view column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() && found->second.contains(std::string(column));
}

Result<store::Statement> ExportFile::Select(std::string_view table,
                                            const std::vector<std::string_view>& columns,
                                            std::string_view where) {
  std::string sql = "SELECT ";
  for (const std::string_view column : columns) {
    if (column != columns.front()) sql += ", ";
    sql += Has(table, column) ? Quoted(column) : "NULL";
  }
  sql += " FROM " + Quoted(table);
  if (!where.empty()) sql += fmt::format(" WHERE {}", where);
  return database_.Prepare(sql);
}

int64_t ExportFile::AboutNumRows(std::string_view table) {
  if (!Has(table)) return 0;
  const Result<int64_t> rows =
      database_.QueryInteger(fmt::format("SELECT max(rowid) FROM {}", Quoted(table)));
  return rows.ok() ? std::clamp<int64_t>(*rows, 0, int64_t{1} << 40) : 0;
}

std::optional<std::string> ExportFile::TextOf(int64_t id) {
  if (!text_) return std::nullopt;
  text_->Reset();
  text_->Bind(1, id);
  const Result<bool> row = text_->Step();
  std::optional<std::string> text;
  if (row.ok() && *row) text = text_->Text(0);
  text_->Reset();
  return text;
}

std::string ExportFile::ValueOf(std::string_view table, std::string_view key) {
  if (!Has(table, "name") || !Has(table, "value")) return "";
  Result<store::Statement> rows = Select(table, {"value"}, "name = ?1");
  if (!rows.ok()) return "";
  rows->Bind(1, key);
  const Result<bool> row = rows->Step();
  return row.ok() && *row ? std::string(rows->Text(0)) : "";
}

}  // namespace shardscope::imports
