#include "trace/store/finisher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "trace/schema/columns.h"
#include "trace/schema/ddl.h"
#include "trace/store/database.h"
#include "trace/store/reader.h"

namespace shardscope::store {
namespace {

Status SyncPath(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) return Status::Error(fmt::format("cannot open {}: {}", path, SystemError()));
  const int code = fsync(descriptor);
  const std::string error = code == 0 ? "" : SystemError();
  close(descriptor);
  if (code != 0) return Status::Error(fmt::format("cannot write {} to disk: {}", path, error));
  return Status::Ok();
}

Status CopyTables(const TraceFile& file, const std::string& state, Database* target) {
  // No journal: until the rename nobody knows of this file, and after a crash it is built anew.
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute(
      fmt::format("PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
                  "PRAGMA trusted_schema=OFF; PRAGMA application_id={}; PRAGMA user_version={}",
                  schema::kApplicationId, schema::kVersion)));
  Result<Statement> attach = target->Prepare("ATTACH ? AS live");
  if (!attach.ok()) return attach.status();
  const std::string uri = ReadOnlyUri(file.LivePath());
  attach->Bind(1, std::string_view(uri));
  SHARDSCOPE_RETURN_IF_ERROR(attach->Run());
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute("BEGIN"));
  const std::vector<schema::TableInfo>& tables = schema::Tables();
  for (size_t i = 0; i < tables.size(); ++i) {
    SHARDSCOPE_RETURN_IF_ERROR(target->Execute(schema::FinishedTables()[i]));
    SHARDSCOPE_RETURN_IF_ERROR(
        target->Execute(fmt::format("INSERT INTO main.{0} SELECT * FROM live.{0} ORDER BY {1}",
                                    tables[i].name, tables[i].order)));
  }
  for (const std::string& index : schema::FinishedIndexes()) {
    SHARDSCOPE_RETURN_IF_ERROR(target->Execute(index));
  }
  for (const schema::View& view : schema::Views()) {
    SHARDSCOPE_RETURN_IF_ERROR(
        target->Execute(fmt::format("CREATE VIEW {} AS {}", view.name, view.body)));
  }
  SHARDSCOPE_RETURN_IF_ERROR(
      target->Execute(fmt::format("UPDATE meta SET value = '{}' WHERE key = 'state'", state)));
  SHARDSCOPE_RETURN_IF_ERROR(target->Execute("COMMIT"));
  return target->Execute("DETACH live");
}

void RemoveDatabase(const std::string& path) {
  unlink(path.c_str());
  unlink((path + "-wal").c_str());
  unlink((path + "-shm").c_str());
}

}  // namespace

Status BuildFinished(const TraceFile& file, const std::string& state) {
  const std::string temporary = file.stem + ".finishing";
  unlink(temporary.c_str());
  {
    Result<Database> target = Database::Open(temporary, Database::Mode::kCreate);
    if (!target.ok()) return target.status();
    const Status copied = CopyTables(file, state, &*target);
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
  RemoveDatabase(file.LivePath());
  return Status::Ok();
}

Status FinishIfAbandoned(const TraceFile& file) {
  if (!Exists(file.LivePath())) return Status::Ok();
  Result<TraceLock> lock = TraceLock::TryTake(file);
  if (!lock.ok()) return lock.status();
  if (!lock->held()) return Status::Ok();
  if (Exists(file.FinishedPath())) {
    // Killed between the rename and the removal.
    RemoveDatabase(file.LivePath());
  } else if (Exists(file.LivePath())) {
    // Checks the file before anything of it is copied.
    Result<TraceReader> reader = TraceReader::Open(file.LivePath());
    if (!reader.ok()) {
      lock->RemoveAndRelease();
      return reader.status();
    }
    const Result<std::string> state =
        reader->database().QueryText("SELECT value FROM meta WHERE key = 'state'");
    if (!state.ok()) return state.status();
    SHARDSCOPE_RETURN_IF_ERROR(BuildFinished(file, *state == "finishing" ? "finished" : "cut"));
  }
  lock->RemoveAndRelease();
  return Status::Ok();
}

}  // namespace shardscope::store
