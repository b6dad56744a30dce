#include "trace/export/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trace/base/output_file.h"
#include "trace/base/output_folder.h"
#include "trace/base/text.h"
#include "trace/store/catalogue.h"
#include "trace/store/database.h"
#include "trace/store/run_source.h"

namespace shardscope::exports {
namespace {

constexpr size_t kCsvBufferBytes = 1 << 20;

// `name` is one of the database's.
Status WriteTable(store::Database* database, const std::string& name, const std::string& to) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Statement select,
                              database->Prepare(fmt::format("SELECT * FROM {}", name)));
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(to));
  std::string text;
  const auto end_field = [&](int column) {
    text += column + 1 < select.NumColumns() ? "," : "\r\n";
  };
  for (int column = 0; column < select.NumColumns(); ++column) {
    text += CsvField(select.ColumnName(column));
    end_field(column);
  }
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) break;
    for (int column = 0; column < select.NumColumns(); ++column) {
      text += select.ColumnType(column) == store::Statement::Type::kReal
                  ? fmt::format("{}", select.Real(column))
                  : CsvField(select.Text(column));
      end_field(column);
    }
    if (text.size() < kCsvBufferBytes) continue;
    SHARDSCOPE_RETURN_IF_ERROR(file.Write(text));
    text.clear();
  }
  SHARDSCOPE_RETURN_IF_ERROR(file.Write(text));
  return file.Close();
}

}  // namespace

Status WriteCsv(const store::RunFiles& run, const std::string& to, const ExportOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database database, store::OpenRunDatabase(run));
  if (!options.table.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                                store::NamesInDatabase(&database, {"table", "view"}));
    if (std::ranges::find(names, options.table) == names.end()) {
      return Status::Error(fmt::format("--table {}: there is no such table or view; there are {}",
                                       options.table, Join(names, ", ")));
    }
    return WriteTable(&database, options.table, to);
  }
  SHARDSCOPE_RETURN_IF_ERROR(MakeFolder(to));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<std::string> views,
                              store::NamesInDatabase(&database, {"view"}));
  for (const std::string& view : views) {
    SHARDSCOPE_RETURN_IF_ERROR(WriteTable(&database, view, fmt::format("{}/{}.csv", to, view)));
  }
  return Status::Ok();
}

}  // namespace shardscope::exports
