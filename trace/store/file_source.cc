#include "trace/store/file_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "trace/base/time.h"
#include "trace/store/finisher.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

// Bounds the memory of one Read, and how long its read transaction keeps the writer's log from
// being reset: about 50 ms.
constexpr size_t kRowsPerTable = 100'000;

// How often a silent live file is asked whether its writer still lives.
constexpr int64_t kWriterCheckNs = kNsPerSecond;

}  // namespace

schema::CapabilityRow UnfinishedRow(const std::string& reason) {
  return {(int64_t{1} << 39) - 1, std::string(kFinisher), "partial", reason, 0};
}

Result<std::unique_ptr<FileSource>> FileSource::Open(const TraceFile& file) {
  std::unique_ptr<FileSource> source(new FileSource(file));
  SHARDSCOPE_RETURN_IF_ERROR(source->OpenNewest());
  if (source->segment_ > 0 && !WriterLives(file)) {
    // FindRun() finishes such a trace, unless it cannot.
    SHARDSCOPE_RETURN_IF_ERROR(source->OpenNewest());
    if (source->segment_ > 0) source->state_ = SourceState::kCut;
  }
  if (source->segment_ == 0) return source;
  // The newest segment knows what was removed before the one that is open now.
  const std::vector<int64_t> segments = LiveSegments(file);
  if (!segments.empty() && segments.back() == source->segment_) return source;
  Result<TraceReader> newest =
      TraceReader::OpenSegment(file, segments.empty() ? source->segment_ : segments.back());
  if (!newest.ok()) {  // finished meanwhile
    SHARDSCOPE_RETURN_IF_ERROR(source->OpenNewest());
    return source;
  }
  const Result<int64_t> dropped = newest->database().QueryInteger(
      fmt::format("SELECT coalesce(max(CAST(value AS INTEGER)), -1) FROM meta WHERE key = '{}'",
                  kDroppedThroughStep));
  if (!dropped.ok()) return dropped.status();
  source->skip_through_step_ = dropped.value();
  return source;
}

Status FileSource::Use(TraceReader reader) {
  segment_ = reader.segment();
  reader_ = std::move(reader);
  data_version_ = -1;
  return CheckNoGap();
}

Status FileSource::OpenNewest() {
  Result<TraceReader> reader = TraceReader::OpenNewest(file_);
  if (!reader.ok()) return reader.status();
  return Use(std::move(reader).value());
}

int64_t FileSource::Successor() const {
  const std::vector<int64_t> segments = LiveSegments(file_);
  const auto next = std::upper_bound(segments.begin(), segments.end(), segment_);
  return next == segments.end() ? 0 : *next;
}

// What was read so far and a later file must fit together: its memory events start from a balance.
Status FileSource::CheckNoGap() {
  const auto check = [this]<typename Row>() -> Status {
    const int64_t last_id = last_id_[schema::TableOf<Row>::kIndex];
    if (last_id == 0) return Status::Ok();
    const Result<int64_t> first = reader_->database().QueryInteger(
        fmt::format("SELECT coalesce(min(id), 0) FROM {}", schema::TableOf<Row>::kName));
    if (!first.ok()) return first.status();
    if (first.value() <= last_id + 1) return Status::Ok();
    return Status::Error(
        fmt::format("{}: this reader was so late that rows it had not read were removed to keep "
                    "record.max_bytes: open the run again",
                    file_.stem));
  };
  SHARDSCOPE_RETURN_IF_ERROR(check.operator()<schema::OpRunRow>());
  return check.operator()<schema::MemoryEventRow>();
}

template <typename Row>
Result<bool> FileSource::ReadTable(RowBatch* batch) {
  std::vector<Row>& rows = batch->Get<Row>();
  if constexpr (schema::TableOf<Row>::kHasId) {
    int64_t& last_id = last_id_[schema::TableOf<Row>::kIndex];
    const int64_t after = last_id;
    const auto take = [&](Row&& row) {
      last_id = row.id;
      if constexpr (schema::TableOf<Row>::kPerStep) {
        if (row.step <= skip_through_step_) return;
      }
      rows.push_back(std::move(row));
    };
    const Result<size_t> count = reader_->ReadAfter<Row>(after, kRowsPerTable, take);
    if (!count.ok()) return count.status();
    return count.value() == kRowsPerTable;
  } else {
    const Result<size_t> count =
        reader_->ReadAll<Row>([&rows](Row&& row) { rows.push_back(std::move(row)); });
    if (!count.ok()) return count.status();
    return false;
  }
}

Status FileSource::ReadState() {
  if (segment_ > 0) return Status::Ok();
  const Result<std::string> state =
      reader_->database().QueryText("SELECT value FROM meta WHERE key = 'state'");
  if (!state.ok()) return state.status();
  state_ = state.value() == "cut" ? SourceState::kCut : SourceState::kFinished;
  return Status::Ok();
}

void FileSource::SayRemoved(size_t first_meta, RowBatch* batch) {
  std::vector<schema::MetaRow>& meta = batch->Get<schema::MetaRow>();
  const auto begin = meta.begin() + static_cast<ptrdiff_t>(first_meta);
  std::string through;
  for (auto row = begin; row != meta.end(); ++row) {
    if (row->key == kDroppedThroughStep) through = row->value;
  }
  const auto say = [&](const schema::MetaRow& row, std::string_view key, std::string_view source,
                       int64_t* said) {
    int64_t count = 0;
    std::from_chars(row.value.data(), row.value.data() + row.value.size(), count);
    if (row.key != key || count <= *said) return;
    batch->Get<schema::CapabilityRow>().push_back(
        {++last_removed_id_, std::string(source), "partial",
         fmt::format("steps to {} were removed to keep record.max_bytes", through), count - *said});
    *said = count;
  };
  for (auto row = begin; row != meta.end(); ++row) {
    say(*row, kDroppedEngine, "engine", &removed_engine_);
    say(*row, kDroppedMemory, "memory", &removed_memory_);
  }
  const auto is_count = [](const schema::MetaRow& row) {
    return row.key == kDroppedEngine || row.key == kDroppedMemory;
  };
  meta.erase(std::remove_if(begin, meta.end(), is_count), meta.end());
}

Result<bool> FileSource::ReadTables(RowBatch* batch) {
  bool more = false;
  const size_t first_meta = batch->Get<schema::MetaRow>().size();
  Status status = reader_->database().Execute("BEGIN");
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    if (!status.ok() || schema::TableOf<Row>::kDerived) return;
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
  SayRemoved(first_meta, batch);
  return more;
}

// A killed writer leaves its live file behind; then this reader finishes it, or, where it cannot,
// takes the file as it is.
void FileSource::CheckWriter(RowBatch* batch) {
  if (state_ != SourceState::kLive || MonotonicNs() < next_writer_check_ns_) return;
  next_writer_check_ns_ = MonotonicNs() + kWriterCheckNs;
  if (WriterLives(file_)) return;
  const bool writable = CanWrite(file_.Folder());
  const Status finished = writable ? FinishIfAbandoned(file_) : Status::Ok();
  if (writable && finished.ok()) return;
  if (WriterLives(file_)) return;
  state_ = SourceState::kCut;
  if (!finished.ok()) {
    batch->Get<schema::CapabilityRow>().push_back(UnfinishedRow(finished.message()));
  }
}

Result<bool> FileSource::Read(RowBatch* batch) {
  if (segment_ == 0 && !more_ && data_version_ >= 0) return false;  // finished and read
  if (segment_ > 0 && Exists(file_.FinishedPath())) {
    SHARDSCOPE_RETURN_IF_ERROR(OpenNewest());
  }
  // Asked before the rows are read: what is read now is all that the segment will ever have.
  const int64_t successor = segment_ > 0 ? Successor() : 0;
  const Result<int64_t> version = reader_->database().QueryInteger("PRAGMA data_version");
  if (!version.ok()) return version.status();
  if (version.value() != data_version_ || more_) {
    data_version_ = version.value();
    const Result<bool> more = ReadTables(batch);
    more_ = more.ok() && more.value();
    if (!more.ok() || more_ || successor == 0) return more;
    return true;
  }
  if (successor > 0) {
    Result<TraceReader> reader = TraceReader::OpenSegment(file_, successor);
    // Removed just now; the next one is found by the next Read.
    if (!reader.ok() && !Exists(file_.LivePath(successor))) return true;
    if (!reader.ok()) return reader.status();
    SHARDSCOPE_RETURN_IF_ERROR(Use(std::move(reader).value()));
    return true;
  }
  CheckWriter(batch);
  return segment_ > 0 && Exists(file_.FinishedPath());
}

}  // namespace shardscope::store
