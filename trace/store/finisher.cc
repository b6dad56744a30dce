#include "trace/store/finisher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

#include "trace/schema/columns.h"
#include "trace/schema/ddl.h"
#include "trace/store/database.h"
#include "trace/store/reader.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int32_t>::min();

constexpr const char* kStepRanges =
    "INSERT INTO main.step_range "
    "SELECT r.step, r.first, r.last, coalesce(c.first, 0), coalesce(c.last, -1) "
    "FROM (SELECT step, min(id) AS first, max(id) AS last FROM main.op_run GROUP BY step) r "
    "LEFT JOIN (SELECT step, min(id) AS first, max(id) AS last FROM main.collective GROUP BY step) "
    "c ON c.step = r.step";

// One table of all segments (writer.h, Note: Segments). A plain SELECT * lets SQLite copy rows as
// they are, which is several times faster; only a trace that was bounded needs more.
std::string SelectRows(const schema::TableInfo& table, size_t num_segments, bool bounded) {
  // The newest segment has all rare rows.
  if (!table.hot || !bounded) {
    return fmt::format("SELECT * FROM segment{}.{}", num_segments - 1, table.name);
  }
  std::string select;
  for (size_t i = 0; i < num_segments; ++i) {
    select += fmt::format("{}SELECT * FROM segment{}.{} WHERE 1", i == 0 ? "" : " UNION ALL ", i,
                          table.name);
    if (table.per_step) {
      select += fmt::format(
          " AND step > coalesce((SELECT CAST(value AS INTEGER) FROM segment{}.meta WHERE key = "
          "'{}'), {})",
          num_segments - 1, kDroppedThroughStep, kNoStep);
    }
    if (i > 0) {
      select += fmt::format(" AND id > coalesce((SELECT max(id) FROM segment{}.{}), 0)", i - 1,
                            table.name);
    }
  }
  return select;
}

// Rows of a damaged file may share their text: a small one must not fill the disk. A finished file
// is at most about half as large again as the live one, for its indexes.
int64_t MostPages(const std::vector<std::string>& segments) {
  uintmax_t bytes = 0;
  for (const std::string& segment : segments) {
    for (const char* const part : {"", "-wal"}) {
      std::error_code error;
      const uintmax_t size = std::filesystem::file_size(segment + part, error);
      if (!error) bytes += size;
    }
  }
  return 1000 + static_cast<int64_t>(3 * bytes / kPageBytes);
}

Status CopyTables(const std::vector<std::string>& segments, const std::string& state,
                  Database* target) {
  // No journal: until the rename nobody knows of this file, and after a crash it is built anew.
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute(
      fmt::format("PRAGMA page_size={}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                  "PRAGMA trusted_schema=OFF; PRAGMA application_id={}; PRAGMA user_version={}",
                  kPageBytes, schema::kApplicationId, schema::kVersion)));
  for (size_t i = 0; i < segments.size(); ++i) {
    Result<Statement> attach = target->Prepare(fmt::format("ATTACH ? AS segment{}", i));
    if (!attach.ok()) return attach.status();
    const std::string uri = ReadOnlyUri(segments[i]);
    attach->Bind(1, std::string_view(uri));
    SHARDSCOPE_RETURN_IF_ERROR(attach->Run());
  }
  SHARDSCOPE_RETURN_IF_ERROR(
      target->Execute(fmt::format("PRAGMA main.max_page_count={}", MostPages(segments))));
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute("BEGIN"));
  const Result<int64_t> version = target->QueryInteger("PRAGMA segment0.user_version");
  if (!version.ok()) return version.status();
  const Result<int64_t> dropped =
      target->QueryInteger(fmt::format("SELECT count(*) FROM segment{}.meta WHERE key = '{}'",
                                       segments.size() - 1, kDroppedThroughStep));
  if (!dropped.ok()) return dropped.status();
  const bool bounded = segments.size() > 1 || *dropped > 0;
  const std::vector<schema::TableInfo>& tables = schema::Tables();
  for (size_t i = 0; i < tables.size(); ++i) {
    SHARDSCOPE_RETURN_IF_ERROR(target->Execute(schema::CreateTables()[i]));
    if (tables[i].since > *version) continue;  // an older program was killed while it wrote this
    SHARDSCOPE_RETURN_IF_ERROR(
        target->Execute(fmt::format("INSERT INTO main.{} {}", tables[i].name,
                                    SelectRows(tables[i], segments.size(), bounded))));
  }
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute(kStepRanges));
  for (const std::string& index : schema::CreateIndexes()) {
    SHARDSCOPE_RETURN_IF_ERROR(target->Execute(index));
  }
  for (const schema::View& view : schema::Views()) {
    SHARDSCOPE_RETURN_IF_ERROR(
        target->Execute(fmt::format("CREATE VIEW {} AS {}", view.name, view.body)));
  }
  SHARDSCOPE_RETURN_IF_ERROR(
      target->Execute(fmt::format("UPDATE meta SET value = '{}' WHERE key = 'state'", state)));
  return target->Execute("COMMIT");
}

// Checks the segments before anything of them is copied. Returns the state that the newest gives.
Result<std::string> CheckSegments(const TraceFile& file, const std::vector<int64_t>& segments) {
  std::string state;
  for (const int64_t segment : segments) {
    Result<TraceReader> reader = TraceReader::Open(file.LivePath(segment));
    if (!reader.ok()) return reader.status();
    Result<std::string> value =
        reader->database().QueryText("SELECT value FROM meta WHERE key = 'state'");
    if (!value.ok()) return value.status();
    state = std::move(value).value();
  }
  return state;
}

}  // namespace

Status BuildFinished(const TraceFile& file, const std::string& state) {
  const std::vector<int64_t> segments = LiveSegments(file);
  if (segments.empty() || segments.size() > kMaxSegments + 1) {
    return Status::Error(
        fmt::format("cannot finish {}: it has {} live files", file.stem, segments.size()));
  }
  std::vector<std::string> paths;
  for (const int64_t segment : segments) paths.push_back(file.LivePath(segment));
  const std::string temporary = file.stem + ".finishing";
  unlink(temporary.c_str());
  {
    Result<Database> target = Database::Open(temporary, Database::Mode::kCreate);
    if (!target.ok()) return target.status();
    const Status copied = CopyTables(paths, state, &*target);
    if (!copied.ok()) {
      unlink(temporary.c_str());
      return copied;
    }
  }
  SHARDSCOPE_RETURN_IF_ERROR(SyncPath(temporary, 0));
  if (std::rename(temporary.c_str(), file.FinishedPath().c_str()) != 0) {
    return Status::Error(
        fmt::format("cannot rename {} to {}: {}", temporary, file.FinishedPath(), SystemError()));
  }
  SHARDSCOPE_RETURN_IF_ERROR(SyncPath(file.Folder(), O_DIRECTORY));
  RemoveLive(file);
  return Status::Ok();
}

Status FinishIfAbandoned(const TraceFile& file) {
  if (LiveSegments(file).empty()) return Status::Ok();
  Result<TraceLock> lock = TraceLock::TryTake(file);
  if (!lock.ok()) return lock.status();
  if (!lock->held()) return Status::Ok();
  Status status;
  const std::vector<int64_t> segments = LiveSegments(file);
  if (!segments.empty() && Exists(file.FinishedPath())) {
    RemoveLive(file);  // killed between the rename and the removal
  } else if (!segments.empty()) {
    const Result<std::string> state = CheckSegments(file, segments);
    status = state.ok() ? BuildFinished(file, *state == "finishing" ? "finished" : "cut")
                        : state.status();
  }
  lock->RemoveAndRelease();
  return status;
}

}  // namespace shardscope::store
