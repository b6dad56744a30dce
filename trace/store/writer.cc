#include "trace/store/writer.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <utility>

#include "trace/base/words.h"
#include "trace/schema/ddl.h"
#include "trace/store/catalogue.h"
#include "trace/store/finisher.h"

namespace shardscope::store {
namespace {

// Debian's SQLite 3.40 has a race between a checkpoint and a write of two connections; this one
// connection does both, so the race cannot happen. NORMAL loses no commit when the process is
// killed.
Status Configure(int64_t checkpoint_pages, Database* database) {
  return database->Execute(
      fmt::format("PRAGMA page_size={}; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA "
                  "cache_size=-65536; PRAGMA journal_size_limit={}; PRAGMA wal_autocheckpoint={}",
                  kPageBytes, 8 * checkpoint_pages * kPageBytes, checkpoint_pages));
}

uint64_t InodeOf(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 ? file.st_ino : 0;
}

Status CopyRareRows(const std::string& from, Database* to) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Statement attach, to->Prepare("ATTACH ? AS before"));
  const std::string uri = ReadOnlyUri(from);
  attach.Bind(1, std::string_view(uri));
  SHARDSCOPE_RETURN_IF_ERROR(attach.Run());
  SHARDSCOPE_RETURN_IF_ERROR(to->Execute("BEGIN"));
  for (const schema::TableInfo& table : schema::Tables()) {
    if (table.hot) continue;
    SHARDSCOPE_RETURN_IF_ERROR(to->Execute(
        fmt::format("INSERT OR REPLACE INTO main.{0} SELECT * FROM before.{0}", table.name)));
  }
  SHARDSCOPE_RETURN_IF_ERROR(to->Execute("COMMIT"));
  return to->Execute("DETACH before");
}

Status InsertBalance(const std::vector<schema::MemoryEventRow>& balance, Database* database) {
  Result<Statement> insert = database->Prepare(schema::TableOf<schema::MemoryEventRow>::kInsert);
  if (!insert.ok()) return insert.status();
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  for (const schema::MemoryEventRow& row : balance) {
    Binder binder(&*insert);
    WriteFields(row, &binder);
    SHARDSCOPE_RETURN_IF_ERROR(insert->Run());
  }
  return database->Execute("COMMIT");
}

}  // namespace

Result<bool> WasBounded(Database* database) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t count, database->QueryInteger(fmt::format(
                               "SELECT count(*) FROM meta WHERE key = '{}'", kDroppedThroughStep)));
  return count > 0;
}

Status CreateLiveSchema(Database* database) {
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  SHARDSCOPE_RETURN_IF_ERROR(
      database->Execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}",
                                    schema::kApplicationId, schema::kVersion)));
  for (const std::string& table : schema::CreateTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(database->Execute(table));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CreateViews(ViewsOf::kFile, database));
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute(fmt::format(
      "INSERT INTO meta(key, value) VALUES('state', '{}')", Name(words::TraceState::kLive))));
  return database->Execute("COMMIT");
}

TraceWriter::TraceWriter(TraceFile file, TraceLock lock, int64_t checkpoint_pages)
    : file_(std::move(file)), lock_(std::move(lock)), checkpoint_pages_(checkpoint_pages) {}

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& folder,
                                                         int64_t checkpoint_pages) {
  const TraceFile file = NewTraceFile(folder);
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceLock lock, TraceLock::TryTake(file));
  if (!lock.held()) {
    return Status::Error(fmt::format("{} is held by another process", file.LockPath()));
  }
  std::unique_ptr<TraceWriter> writer(new TraceWriter(file, std::move(lock), checkpoint_pages));
  writer->segments_.push_back(1);
  Status begun = writer->OpenSegment(1);
  if (begun.ok()) begun = CreateLiveSchema(&writer->database_);
  if (!begun.ok()) return writer->Discard(begun);
  writer->lock_.Reserve();
  return writer;
}

Status TraceWriter::OpenSegment(int64_t segment) {
  const std::string path = file_.LivePath(segment);
  SHARDSCOPE_ASSIGN_OR_RETURN(Database database, Database::Open(path, Database::Mode::kCreate));
  SHARDSCOPE_RETURN_IF_ERROR(Configure(checkpoint_pages_, &database));
  inserter_.Forget();
  database_ = std::move(database);
  inode_ = InodeOf(path);
  return Status::Ok();
}

Status TraceWriter::Begin() {
  if (!lock_.IsOpen()) SHARDSCOPE_RETURN_IF_ERROR(Reopen());
  return database_.Execute("BEGIN");
}

// The old ones are let go first: the new ones may get their numbers. If they cannot be opened, the
// writer has an empty database in memory until the next try.
Status TraceWriter::Reopen() {
  SHARDSCOPE_ASSIGN_OR_RETURN(Database nothing, Database::OpenInMemory());
  inserter_.Forget();
  database_ = std::move(nothing);
  lock_ = TraceLock();
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceLock lock, TraceLock::TryTake(file_));
  if (!lock.held()) {
    return Status::Error(
        fmt::format("the program closed the files of its trace, and {} is held by another process",
                    file_.LockPath()));
  }
  lock_ = std::move(lock);
  return OpenSegment(segments_.back());
}

Status TraceWriter::SetMeta(std::string_view key, std::string_view value) {
  return Insert(schema::MetaRow{std::string(key), std::string(value)});
}

// The new segment is built under another name: when it becomes visible it has all of its rare rows.
Status TraceWriter::StartSegment(const std::vector<schema::MemoryEventRow>& balance) {
  const int64_t segment = segments_.back() + 1;
  const std::string path = file_.LivePath(segment);
  const std::string unfinished = path + ".new";
  RemoveDatabase(unfinished);
  const auto build = [&]() -> Status {
    Result<Database> fresh = Database::Open(unfinished, Database::Mode::kCreate);
    if (!fresh.ok()) return fresh.status();
    SHARDSCOPE_RETURN_IF_ERROR(Configure(checkpoint_pages_, &*fresh));
    SHARDSCOPE_RETURN_IF_ERROR(fresh->Execute("PRAGMA synchronous=OFF"));
    SHARDSCOPE_RETURN_IF_ERROR(CreateLiveSchema(&*fresh));
    SHARDSCOPE_RETURN_IF_ERROR(CopyRareRows(database_.path(), &*fresh));
    return InsertBalance(balance, &*fresh);
  };  // closing the only connection empties its log
  Status status = build();
  if (status.ok()) status = SyncPath(unfinished, 0);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = Status::Error(fmt::format("cannot rename {}: {}", unfinished, SystemError()));
  }
  if (!status.ok()) {
    RemoveDatabase(unfinished);
    return status;
  }
  // Readers of the old segment may keep this from emptying its log, which then stays beside it.
  (void)database_.Execute("PRAGMA wal_checkpoint(PASSIVE)");
  Status opened = OpenSegment(segment);
  // Readers would move on to it, and miss what the old one takes from now on.
  if (!opened.ok()) {
    RemoveDatabase(path);
    return opened;
  }
  segments_.push_back(segment);
  return Status::Ok();
}

void TraceWriter::RemoveOldestSegment() {
  if (segments_.size() < 2) return;
  RemoveDatabase(file_.LivePath(segments_.front()));
  segments_.erase(segments_.begin());
}

int64_t TraceWriter::SizeBytes() const {
  int64_t bytes = 0;
  for (const int64_t segment : segments_) bytes += DatabaseBytes(file_.LivePath(segment));
  return bytes;
}

Status TraceWriter::CheckFile() const {
  if (InodeOf(database_.path()) == inode_) return Status::Ok();
  return Status::Error(fmt::format(
      "{} was removed or replaced while the run writes to it: nothing more can be recorded",
      database_.path()));
}

Status TraceWriter::Discard(const Status& why) {
  const Status room = lock_.CheckRoom();
  inserter_.Forget();
  database_ = Database();  // closes it, which changes its files
  RemoveLive(file_);
  lock_.RemoveAndRelease();
  return room.ok() ? why : room;
}

// A file that is gone from its place may have been moved: it lacks what came afterwards, so it must
// not say that it is finished. Without room for the state the finished file may still find some.
Status TraceWriter::Finish(const RowBatch& rest) {
  if (!lock_.IsOpen()) SHARDSCOPE_RETURN_IF_ERROR(Reopen());
  SHARDSCOPE_RETURN_IF_ERROR(CheckFile());
  if (IsEmpty(rest)) (void)SetMeta("state", Name(words::TraceState::kFinishing));
  inserter_.Forget();
  // Everything into the main file, so that the log does not outlive a crash of the finisher.
  (void)database_.Execute("PRAGMA wal_checkpoint(PASSIVE)");
  SHARDSCOPE_RETURN_IF_ERROR(BuildFinished(file_, words::TraceState::kFinished, rest));
  lock_.RemoveAndRelease();
  return Status::Ok();
}

}  // namespace shardscope::store
