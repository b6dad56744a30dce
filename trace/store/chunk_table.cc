#include "trace/store/chunk_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "trace/store/finisher.h"
#include "trace/store/row_chunk.h"
#include "trace/store/row_io.h"
#include "trace/store/trace_file.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

constexpr size_t kLeastBytesOfRow = 4;  // what a row takes of its file
constexpr std::array<std::string_view, 3> kChanges = {"INSERT", "UPDATE", "DELETE"};

bool HasChunks(const Table& table) { return table.hot && !table.sql_only && table.has_id; }

std::vector<std::string> TriggersOf(const Table& table) {
  std::vector<std::string> triggers;
  for (const std::string_view change : kChanges) {
    triggers.push_back(fmt::format(
        "CREATE TRIGGER IF NOT EXISTS {0}_chunks_{1} AFTER {1} ON {0} BEGIN DELETE FROM "
        "row_chunk WHERE table_name = '{0}'; END",
        table.name, change));
  }
  return triggers;
}

// Tells the last part of finishing.
class ChunkProgress {
 public:
  explicit ChunkProgress(double all_rows) : all_rows_(all_rows) {}

  void Add(size_t rows) {
    rows_ += static_cast<double>(rows);
    const double share = std::min(1.0, rows_ / std::max(1.0, all_rows_));
    const int percent = kDerivedPercent + static_cast<int>((100 - kDerivedPercent) * share);
    if (std::exchange(percent_, percent) != percent) TellFinishProgress(percent);
  }

 private:
  const double all_rows_;
  double rows_ = 0;
  int percent_ = kDerivedPercent;
};

// Writes the rows of one table, if it has any, and its triggers.
class ChunkWriter {
 public:
  ChunkWriter(Database* database, ChunkProgress* progress)
      : database_(*database), progress_(*progress) {}

  Status WriteTable(const Table& table) {
    SHARDSCOPE_ASSIGN_OR_RETURN(Statement select,
                                database_.Prepare(fmt::format("{} ORDER BY id", table.select)));
    SHARDSCOPE_ASSIGN_OR_RETURN(Statement insert,
                                database_.Prepare("INSERT INTO row_chunk VALUES(?, ?, ?, ?)"));
    RowBatch batch;
    AnyRows& rows = batch.At(table.index);
    bool is_empty = true;
    for (bool more = true; more;) {
      SHARDSCOPE_ASSIGN_OR_RETURN(more, select.Step());
      if (more) {
        ColumnSource columns(select);
        rows.Read(&columns);
      }
      const bool is_full = rows.size() == kRowsOfChunk;
      if (rows.size() == 0 || (more && !is_full)) continue;
      const std::string data = PackRows(rows);
      if (data.empty()) return ForgetTable(table);
      insert.Bind(1, ++last_chunk_);
      insert.Bind(2, std::string_view(table.name));
      insert.Bind(3, static_cast<int64_t>(rows.size()));
      insert.BindBlob(4, data);
      SHARDSCOPE_RETURN_IF_ERROR(insert.Run());
      progress_.Add(rows.size());
      rows.Clear();
      is_empty = false;
    }
    if (is_empty) return Status::Ok();
    for (const std::string& trigger : TriggersOf(table)) {
      SHARDSCOPE_RETURN_IF_ERROR(database_.Execute(trigger));
    }
    return Status::Ok();
  }

 private:
  // It is read with SQL then.
  Status ForgetTable(const Table& table) {
    return database_.Execute(
        fmt::format("DELETE FROM row_chunk WHERE table_name = '{}'", table.name));
  }

  Database& database_;
  ChunkProgress& progress_;
  int64_t last_chunk_ = 0;
};

Status WriteTables(Database* database) {
  const RowBatch tables;
  std::vector<const Table*> packed;
  double all_rows = 0;  // about: ids count up
  for (size_t i = 0; i < schema::kNumTables; ++i) {
    const Table& table = tables.At(i).table();
    if (!HasChunks(table)) continue;
    packed.push_back(&table);
    SHARDSCOPE_ASSIGN_OR_RETURN(
        const int64_t last_id,
        database->QueryInteger(fmt::format("SELECT coalesce(max(id), 0) FROM {}", table.name)));
    all_rows += static_cast<double>(std::max<int64_t>(last_id, 0));
  }
  ChunkProgress progress(all_rows);
  ChunkWriter writer(database, &progress);
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("DELETE FROM row_chunk"));
  for (const Table* table : packed) SHARDSCOPE_RETURN_IF_ERROR(writer.WriteTable(*table));
  return Status::Ok();
}

// In one transaction. False: the file has all that it had, and perhaps more behind that.
Result<bool> WriteAll(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Database database, Database::Open(path, Database::Mode::kReadWrite));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_bounded, WasBounded(&database));
  if (is_bounded) return true;
  Status written = database.Execute("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; BEGIN");
  if (written.ok()) written = WriteTables(&database);
  if (written.ok()) written = database.Execute("COMMIT");
  // Where the disk is full SQLite has done so already.
  if (!written.ok() && database.in_transaction()) {
    SHARDSCOPE_RETURN_IF_ERROR(database.Execute("ROLLBACK"));
  }
  return written.ok();
}

// Packed, the rows take less than half of what they do in their tables.
bool HasRoomForChunks(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space =
      std::filesystem::space(std::filesystem::absolute(path, error).parent_path(), error);
  return !error && space.available > static_cast<uintmax_t>(DatabaseBytes(path)) / 2;
}

}  // namespace

const std::vector<std::string>& ChunkTriggers() {
  static const std::vector<std::string> kAll = [] {
    std::vector<std::string> all;
    const RowBatch tables;
    for (size_t i = 0; i < schema::kNumTables; ++i) {
      const Table& table = tables.At(i).table();
      if (!HasChunks(table)) continue;
      for (std::string& trigger : TriggersOf(table)) all.push_back(std::move(trigger));
    }
    return all;
  }();
  return kAll;
}

// The journal keeps what was there; what a disk that became full has taken behind it is given back.
Status AddRowChunks(const std::string& path, int64_t least_bytes) {
  std::error_code error;
  const uintmax_t before = std::filesystem::file_size(path, error);
  if (error || DatabaseBytes(path) < least_bytes || !HasRoomForChunks(path)) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool written, WriteAll(path));
  if (written) return Status::Ok();
  std::filesystem::resize_file(path, before, error);
  return error ? Status::Error(fmt::format("cannot write {}: {}", path, error.message()))
               : Status::Ok();
}

int64_t BytesOfChunks(Database* database) {
  const Result<int64_t> bytes =
      database->QueryInteger("SELECT coalesce(sum(length(data)), 0) FROM row_chunk");
  return bytes.ok() ? std::max<int64_t>(*bytes, 0) : 0;
}

Result<std::unique_ptr<RowChunks>> RowChunks::Open(const Table& table, Database* database,
                                                   const IdRange& ids) {
  // Without its triggers a table may have changed since.
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t triggers,
      database->QueryInteger(fmt::format("SELECT count(*) FROM main.sqlite_schema WHERE type = "
                                         "'trigger' AND tbl_name = '{}'",
                                         table.name)));
  if (triggers != static_cast<int64_t>(kChanges.size())) return std::unique_ptr<RowChunks>();
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t has_chunks,
      database->QueryInteger(fmt::format(
          "SELECT EXISTS(SELECT 1 FROM row_chunk WHERE table_name = '{}')", table.name)));
  if (has_chunks == 0) return std::unique_ptr<RowChunks>();
  SHARDSCOPE_ASSIGN_OR_RETURN(
      Statement select, database->Prepare(fmt::format(
                            "SELECT id, num_rows, data FROM row_chunk WHERE table_name = '{}' "
                            "AND id >= ? ORDER BY id",
                            table.name)));
  std::unique_ptr<RowChunks> chunks(new RowChunks(table, database->path(), std::move(select), ids));
  SHARDSCOPE_ASSIGN_OR_RETURN(
      chunks->first_id_,
      database->QueryInteger(fmt::format("SELECT coalesce(min(id), 0) FROM {}", table.name)));
  SHARDSCOPE_ASSIGN_OR_RETURN(
      chunks->last_id_,
      database->QueryInteger(fmt::format("SELECT coalesce(max(id), 0) FROM {}", table.name)));
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(chunks->path_, error);
  chunks->rows_left_ = error ? 0 : bytes / kLeastBytesOfRow;
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t first, chunks->FirstChunk(database));
  chunks->select_.Reset();
  chunks->select_.Bind(1, first);
  return chunks;
}

Result<int64_t> RowChunks::FirstChunk(Database* database) {
  const auto end_of = [&](const char* which) {
    return database->QueryInteger(
        fmt::format("SELECT {}(id) FROM row_chunk WHERE table_name = '{}'", which, table_.name));
  };
  SHARDSCOPE_ASSIGN_OR_RETURN(int64_t first, end_of("min"));
  if (ids_.first <= first_id_) return first;
  SHARDSCOPE_ASSIGN_OR_RETURN(int64_t last, end_of("max"));
  RowBatch batch;
  AnyRows& rows = batch.At(table_.index);
  while (first < last) {
    // Without a sign: damaged numbers may be as far apart as there are any.
    const uint64_t distance = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
    const auto middle =
        static_cast<int64_t>(static_cast<uint64_t>(first) + distance / 2 + distance % 2);
    select_.Reset();
    select_.Bind(1, middle);
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, select_.Step());
    if (!more || select_.Integer(0) != middle) return Lacks();
    rows.Clear();
    SHARDSCOPE_RETURN_IF_ERROR(Unpack(&rows));
    if (rows.IdOf(0) <= ids_.first) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return first;
}

Status RowChunks::Damaged(const std::string& what) const {
  return Status::Error(
      fmt::format("{} is damaged: its table row_chunk {}; copy it again", path_, what));
}

Status RowChunks::Lacks() const {
  return Damaged(fmt::format("does not have all rows of {}", table_.name));
}

Status RowChunks::Unpack(AnyRows* rows) const {
  const size_t before = rows->size();
  if (!UnpackRows(select_.Blob(2), rows)) {
    return Damaged(fmt::format("has rows of {} that cannot be unpacked", table_.name));
  }
  if (static_cast<int64_t>(rows->size() - before) != select_.Integer(1)) {
    return Damaged(fmt::format("has another number of rows of {} than it says", table_.name));
  }
  return Status::Ok();
}

Result<bool> RowChunks::Read(AnyRows* rows) {
  if (ids_.first > ids_.last || read_id_ >= ids_.last) return false;
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, select_.Step());
  if (!more && read_id_ != last_id_) return Lacks();
  if (!more) return false;
  const bool is_first = read_id_ == INT64_MIN;
  const auto chunk = static_cast<uint64_t>(select_.Integer(0));
  if (!is_first && chunk != last_chunk_ + 1) return Lacks();
  last_chunk_ = chunk;
  const size_t before = rows->size();
  SHARDSCOPE_RETURN_IF_ERROR(Unpack(rows));
  const size_t count = rows->size() - before;
  // The first one has the first row of the table, or begins in front of the ids: else rows of them
  // were in one that is gone.
  const bool begins_with_table = ids_.first <= first_id_;
  const int64_t begin = rows->IdOf(before);
  if (is_first && (begins_with_table ? begin != first_id_ : begin > ids_.first)) return Lacks();
  // Pages that point at one another would give rows without end.
  if (count > rows_left_) return Damaged("repeats itself");
  rows_left_ -= count;
  if (!rows->IdsAscend(before, read_id_)) return Damaged("repeats itself");
  read_id_ = rows->IdOf(rows->size() - 1);
  const bool is_within = ids_.Contains(rows->IdOf(before)) && ids_.Contains(read_id_);
  if (!is_within) rows->KeepIds(before, ids_);
  return true;
}

}  // namespace shardscope::store
