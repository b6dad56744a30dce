// ExportFile: an SQLite file that `nsys export` wrote, of whatever version: tables are absent where
// they would be empty, and columns come and go. Schema: docs.nvidia.com/nsight-systems, exporter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/database.h"

namespace shardscope::imports {

class ExportFile {
 public:
  // Errors: no SQLite file, none of Nsight Systems, or too damaged to tell.
  static Result<ExportFile> Open(const std::string& path);

  bool Has(std::string_view table) const { return tables_.contains(table); }
  bool Has(std::string_view table, std::string_view column) const;
  // Names of all tables, with their columns.
  const std::map<std::string, std::set<std::string>, std::less<>>& tables() const {
    return tables_;
  }

  // Rows of a table that is there, with these columns in this order; one that it lacks is NULL.
  // `where`: a condition in SQL; empty: all rows.
  Result<store::Statement> Select(std::string_view table,
                                  const std::vector<std::string_view>& columns,
                                  std::string_view where = {});

  // Rows of a table, nearly; 0 if it is not there.
  int64_t AboutNumRows(std::string_view table);

  // A text by its id in StringIds; none: it is not there.
  std::optional<std::string> TextOf(int64_t id);

  // The value of a key in a table of keys (`name`) and values; empty: none.
  std::string ValueOf(std::string_view table, std::string_view key);

  // What is added to times of the file: when its session began, nanoseconds since 1970 where the
  // file says so.
  int64_t start_ns() const { return start_ns_; }

 private:
  explicit ExportFile(store::Database database) : database_(std::move(database)) {}
  Status ReadTables();
  Status PrepareTexts();

  store::Database database_;
  std::map<std::string, std::set<std::string>, std::less<>> tables_;
  std::optional<store::Statement> text_;
  int64_t start_ns_ = 0;
};

// `name` as an identifier in SQL.
std::string Quoted(std::string_view name);

}  // namespace shardscope::imports
