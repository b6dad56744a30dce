#include "trace/store/reader.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "trace/base/file_heads.h"
#include "trace/base/time.h"
#include "trace/schema/ddl.h"
#include "trace/store/catalogue.h"
#include "trace/store/chunk_table.h"
#include "trace/store/row_io.h"

namespace shardscope::store {
namespace {

// A new live file gets its tables a few milliseconds after it appears.
constexpr int kMaxOpenAttempts = 20;
constexpr int64_t kOpenRetryNs = 25 * kNsPerMs;

constexpr int64_t kFirstVersionWithChunks = 9;  // of the schema

// name -> SQL text; views are left out, for those of the file are never used.
using SchemaText = std::map<std::string, std::string>;

Result<SchemaText> ReadSchemaText(Database* database) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement select,
      database->Prepare("SELECT type, name, coalesce(sql, '') FROM main.sqlite_schema"));
  SchemaText text;
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return text;
    if (select.Text(0) == "view") continue;
    text[fmt::format("{} {}", select.Text(0), select.Text(1))] = select.Text(2);
  }
}

Result<SchemaText> ExpectedSchemaText(bool finished, int64_t version) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Database database, Database::OpenInMemory());
  const bool clustered = finished && version < 4;
  for (const std::string& table :
       clustered ? schema::CreateTablesBefore4() : schema::CreateTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(database.Execute(table));
  }
  if (finished) {
    for (const std::string& index :
         clustered ? schema::CreateIndexesBefore4() : schema::CreateIndexes()) {
      SHARDSCOPE_RETURN_IF_ERROR(database.Execute(index));
    }
  }
  if (finished && version >= kFirstVersionWithChunks) {
    for (const std::string& trigger : ChunkTriggers()) {
      SHARDSCOPE_RETURN_IF_ERROR(database.Execute(trigger));
    }
  }
  for (const schema::TableInfo& table : schema::Tables()) {
    if (table.since <= version) continue;
    SHARDSCOPE_RETURN_IF_ERROR(database.Execute("DROP TABLE " + table.name));
  }
  return ReadSchemaText(&database);
}

Status NoTrace(const std::string& path, const std::string& why) {
  return Status::Error(fmt::format("{} is no Shardscope trace: {}", path, why));
}

// SQLite's message names the file.
Status CannotRead(const Status& status) {
  return Status::Error(
      fmt::format("cannot read {}; it may be cut or damaged: copy it again", status.message()));
}

// sqlite3_open() succeeds with any file, and the first statement fails; the first bytes show it
// early.
Status CheckMagic(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return Status::Error(fmt::format("cannot open {}: {}", path, SystemError()));
  std::array<char, kSqliteHead.size()> magic = {};
  if (std::fread(magic.data(), 1, magic.size(), file.get()) != magic.size() ||
      std::string_view(magic.data(), magic.size()) != kSqliteHead) {
    return NoTrace(path, "it is not a SQLite file; it may be cut or damaged: copy it again");
  }
  return Status::Ok();
}

// The schema version of the file.
Result<int64_t> CheckVersion(Database* database) {
  const std::string& path = database->path();
  const Result<int64_t> application = database->QueryInteger("PRAGMA application_id");
  if (!application.ok()) return CannotRead(application.status());
  if (*application != schema::kApplicationId) {
    return NoTrace(path, "another program wrote this SQLite file");
  }
  const Result<int64_t> version = database->QueryInteger("PRAGMA user_version");
  if (!version.ok()) return CannotRead(version.status());
  if (*version > schema::kVersion) {
    return Status::Error(
        fmt::format("{} has trace schema {}, this program reads up to {}: open it with a newer "
                    "Shardscope",
                    path, *version, schema::kVersion));
  }
  if (*version < schema::kFirstVersion) {
    return Status::Error(fmt::format("{} has trace schema {}, this program reads {} to {}", path,
                                     *version, schema::kFirstVersion, schema::kVersion));
  }
  return *version;
}

Status CheckSchema(Database* database, int64_t version) {
  const std::string& path = database->path();
  const Result<SchemaText> found = ReadSchemaText(database);
  if (!found.ok()) return CannotRead(found.status());
  const char* const index = version < 4 ? "index op_run_by_id" : "index span_by_track_start_ns";
  const bool finished = found.value().contains(index);
  SHARDSCOPE_ASSIGN_OR_RETURN(const SchemaText expected, ExpectedSchemaText(finished, version));
  for (const auto& [name, sql] : found.value()) {
    const auto wanted = expected.find(name);
    if (wanted == expected.end()) return NoTrace(path, "it has an unexpected " + name);
    if (wanted->second != sql) return NoTrace(path, "its " + name + " is not as it should be");
  }
  for (const auto& [name, sql] : expected) {
    if (name.starts_with("trigger ")) continue;  // tables without chunks have none
    if (!found.value().contains(name)) return NoTrace(path, "it lacks " + name);
  }
  return Status::Ok();
}

// The tables that came after `version`, empty, so that older files are a matter of this one only.
Status CreateMissingTables(Database* database, int64_t version) {
  constexpr std::string_view kCreate = "CREATE ";
  for (size_t i = 0; i < schema::Tables().size(); ++i) {
    if (schema::Tables()[i].since <= version) continue;
    const std::string_view table = schema::CreateTables()[i];
    SHARDSCOPE_RETURN_IF_ERROR(
        database->Execute(fmt::format("CREATE TEMP {}", table.substr(kCreate.size()))));
  }
  return Status::Ok();
}

}  // namespace

Result<TraceReader> TraceReader::Open(const std::string& path) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckMagic(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(Database database, Database::Open(path, Database::Mode::kReadOnly));
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t version, CheckVersion(&database));
  SHARDSCOPE_RETURN_IF_ERROR(CheckSchema(&database, version));
  SHARDSCOPE_RETURN_IF_ERROR(CreateMissingTables(&database, version));
  SHARDSCOPE_RETURN_IF_ERROR(CreateViews(ViewsOf::kConnection, &database));
  database.Seal();
  TraceReader reader;
  reader.database_ = std::move(database);
  return reader;
}

Result<TraceReader> TraceReader::OpenSegment(const TraceFile& file, int64_t segment) {
  Result<TraceReader> reader = Open(file.LivePath(segment));
  if (reader.ok()) reader->segment_ = segment;
  return reader;
}

Result<TraceReader> TraceReader::OpenNewest(const TraceFile& file) {
  for (int attempt = 1;; ++attempt) {
    // The finished file first: while both exist, the live one is about to be removed.
    const bool live = !Exists(file.FinishedPath());
    const std::vector<int64_t> segments = live ? LiveSegments(file) : std::vector<int64_t>{};
    const int64_t segment = !live ? 0 : segments.empty() ? 1 : segments.front();
    Result<TraceReader> reader = live ? OpenSegment(file, segment) : Open(file.FinishedPath());
    if (reader.ok() || !live || attempt == kMaxOpenAttempts) return reader;
    // It was finished just now, or its writer has not written the tables yet.
    if (!Exists(file.FinishedPath()) && !WriterLives(file)) return reader;
    SleepUntilNs(MonotonicNs() + kOpenRetryNs);
  }
}

Result<size_t> TraceReader::ReadAfter(int64_t after, size_t limit, AnyRows* rows) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement select,
      database_.Prepare(std::string(rows->table().select) + " WHERE id > ? ORDER BY id LIMIT ?"));
  select.Bind(1, after);
  select.Bind(2, static_cast<int64_t>(limit));
  return Drain(&select, after, rows);
}

Result<size_t> TraceReader::ReadAll(AnyRows* rows) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Statement select, database_.Prepare(rows->table().select));
  return Drain(&select, -1, rows);
}

// Pages of a damaged file may point at one another: then rows come again and again, or share
// their text, and a small file is endless or larger than memory. Both are noticed here.
Result<size_t> TraceReader::Drain(Statement* select, int64_t after, AnyRows* rows) {
  const Table& table = rows->table();
  size_t count = 0;
  size_t bytes = table.has_id ? bytes_read_ : 0;
  const size_t before = bytes;
  while (true) {
    const Result<bool> more = select->Step();
    if (!more.ok()) return CannotRead(more.status());
    if (!*more) break;
    ColumnSource columns(*select);
    rows->Read(&columns);
    if (table.has_id) {
      const int64_t id = rows->IdOf(rows->size() - 1);
      if (id <= after) return RepeatsItself(database_.path(), table.name);
      after = id;
    }
    ++count;
    bytes = before + count * kLeastRowBytes + select->text_bytes();
    if (bytes > file_bytes_ && !FileHas(bytes)) return RepeatsItself(database_.path(), table.name);
  }
  if (table.has_id) bytes_read_ = bytes;
  return count;
}

Result<std::string> TraceReader::State() {
  return database_.QueryText("SELECT value FROM meta WHERE key = 'state'");
}

bool TraceReader::FileHas(size_t bytes) {
  std::error_code error;
  file_bytes_ = 0;
  for (const char* const part : {"", "-wal"}) {
    const auto size = std::filesystem::file_size(database_.path() + part, error);
    if (!error) file_bytes_ += size;
  }
  if (file_bytes_ > 0) return bytes <= file_bytes_;
  // record.max_bytes has removed this segment meanwhile; what was open stays readable.
  const Result<int64_t> size = database_.QueryInteger(
      "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
  if (size.ok()) file_bytes_ = static_cast<size_t>(*size);
  return bytes <= file_bytes_;
}

Status RepeatsItself(const std::string& path, const char* table) {
  return Status::Error(
      fmt::format("{} is damaged: its table {} repeats itself; copy it again", path, table));
}

}  // namespace shardscope::store
