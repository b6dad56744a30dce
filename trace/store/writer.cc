#include "trace/store/writer.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "trace/schema/ddl.h"
#include "trace/store/finisher.h"

namespace shardscope::store {
namespace {

// Debian's SQLite 3.40 has a race between a checkpoint and a write of two connections; this one
// connection does both, so the race cannot happen. NORMAL loses no commit when the process is
// killed.
constexpr const char* kSettings =
    "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA "
    "cache_size=-65536; PRAGMA journal_size_limit=67108864; PRAGMA wal_autocheckpoint=2000";

int64_t FileBytes(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 ? file.st_size : 0;
}

}  // namespace

Status CreateLiveSchema(Database* database) {
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  SHARDSCOPE_RETURN_IF_ERROR(
      database->Execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}",
                                    schema::kApplicationId, schema::kVersion)));
  for (const std::string& table : schema::LiveTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(database->Execute(table));
  }
  for (const schema::View& view : schema::Views()) {
    SHARDSCOPE_RETURN_IF_ERROR(
        database->Execute(fmt::format("CREATE VIEW {} AS {}", view.name, view.body)));
  }
  SHARDSCOPE_RETURN_IF_ERROR(
      database->Execute("INSERT INTO meta(key, value) VALUES('state', 'live')"));
  return database->Execute("COMMIT");
}

TraceWriter::TraceWriter(TraceFile file, TraceLock lock, Database database)
    : file_(std::move(file)), lock_(std::move(lock)), database_(std::move(database)) {}

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& folder) {
  const TraceFile file = NewTraceFile(folder);
  Result<TraceLock> lock = TraceLock::TryTake(file);
  if (!lock.ok()) return lock.status();
  if (!lock->held()) {
    return Status::Error(fmt::format("{} is held by another process", file.LockPath()));
  }
  Result<Database> database = Database::Open(file.LivePath(), Database::Mode::kCreate);
  if (!database.ok()) return database.status();
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute(kSettings));
  SHARDSCOPE_RETURN_IF_ERROR(CreateLiveSchema(&*database));
  return std::unique_ptr<TraceWriter>(
      new TraceWriter(file, std::move(lock).value(), std::move(database).value()));
}

Status TraceWriter::SetMeta(std::string_view key, std::string_view value) {
  return Insert(schema::MetaRow{std::string(key), std::string(value)});
}

int64_t TraceWriter::SizeBytes() const {
  return FileBytes(file_.LivePath()) + FileBytes(file_.LivePath() + "-wal");
}

Status TraceWriter::Finish() {
  SHARDSCOPE_RETURN_IF_ERROR(SetMeta("state", "finishing"));
  for (std::optional<Statement>& statement : inserts_) statement.reset();
  // Everything into the main file, so that the log does not outlive a crash of the finisher.
  (void)database_.Execute("PRAGMA wal_checkpoint(PASSIVE)");
  SHARDSCOPE_RETURN_IF_ERROR(BuildFinished(file_, "finished"));
  lock_.RemoveAndRelease();
  return Status::Ok();
}

}  // namespace shardscope::store
