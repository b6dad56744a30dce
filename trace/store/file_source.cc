#include "trace/store/file_source.h"

#include <fmt/format.h>

#include "trace/base/time.h"
#include "trace/store/finisher.h"

namespace shardscope::store {
namespace {

// Bounds the memory of one Read, and how long its read transaction keeps the writer's log from
// being reset: about 50 ms.
constexpr size_t kRowsPerTable = 100'000;

// How often a silent live file is asked whether its writer still lives.
constexpr int64_t kWriterCheckNs = kNsPerSecond;

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::Open(const TraceFile& file) {
  std::unique_ptr<FileSource> source(new FileSource(file));
  SHARDSCOPE_RETURN_IF_ERROR(source->OpenNewest());
  return source;
}

Status FileSource::OpenNewest() {
  Result<TraceReader> reader = TraceReader::OpenNewest(file_);
  if (!reader.ok()) return reader.status();
  live_file_ = reader->live();
  reader_ = std::move(reader).value();
  data_version_ = -1;
  return Status::Ok();
}

template <typename Row>
Result<bool> FileSource::ReadTable(RowBatch* batch) {
  std::vector<Row>& rows = batch->Get<Row>();
  const auto take = [&rows](Row&& row) { rows.push_back(std::move(row)); };
  if constexpr (schema::TableOf<Row>::kHasId) {
    int64_t& last_id = last_id_[schema::TableOf<Row>::kIndex];
    const Result<size_t> count = reader_->ReadAfter<Row>(last_id, kRowsPerTable, take);
    if (!count.ok()) return count.status();
    if (count.value() > 0) last_id = rows.back().id;
    return count.value() == kRowsPerTable;
  } else {
    const Result<size_t> count = reader_->ReadAll<Row>(take);
    if (!count.ok()) return count.status();
    return false;
  }
}

Status FileSource::ReadState() {
  if (live_file_) return Status::Ok();
  const Result<std::string> state =
      reader_->database().QueryText("SELECT value FROM meta WHERE key = 'state'");
  if (!state.ok()) return state.status();
  state_ = state.value() == "cut" ? SourceState::kCut : SourceState::kFinished;
  return Status::Ok();
}

Result<bool> FileSource::ReadTables(RowBatch* batch) {
  bool more = false;
  Status status = reader_->database().Execute("BEGIN");
  schema::ForEachTable(schema::AllRows(), [&]<typename Row>() {
    if (!status.ok()) return;
    const Result<bool> left = ReadTable<Row>(batch);
    if (left.ok()) {
      more |= left.value();
    } else {
      status = left.status();
    }
  });
  if (status.ok()) status = ReadState();
  const Status ended = reader_->database().Execute("COMMIT");
  if (!status.ok()) return status;
  if (!ended.ok()) return ended;
  return more;
}

// A killed writer leaves its live file behind; then this reader finishes it, or, where it may not
// write, takes the file as it is.
Status FileSource::CheckWriter() {
  if (MonotonicNs() < next_writer_check_ns_) return Status::Ok();
  next_writer_check_ns_ = MonotonicNs() + kWriterCheckNs;
  if (WriterLives(file_)) return Status::Ok();
  if (!CanWrite(file_.Folder())) {
    state_ = SourceState::kCut;
    return Status::Ok();
  }
  return FinishIfAbandoned(file_);
}

Result<bool> FileSource::Read(RowBatch* batch) {
  if (!live_file_ && !more_ && data_version_ >= 0) return false;  // finished and read
  if (live_file_ && Exists(file_.FinishedPath())) {
    SHARDSCOPE_RETURN_IF_ERROR(OpenNewest());
  }
  const Result<int64_t> version = reader_->database().QueryInteger("PRAGMA data_version");
  if (!version.ok()) return version.status();
  if (version.value() == data_version_ && !more_) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckWriter());
    return live_file_ && Exists(file_.FinishedPath());
  }
  data_version_ = version.value();
  const Result<bool> more = ReadTables(batch);
  more_ = more.ok() && more.value();
  return more;
}

}  // namespace shardscope::store
