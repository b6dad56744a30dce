#include "trace/store/run_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/parallel.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/schema/capability_row.h"
#include "trace/schema/ddl.h"
#include "trace/store/catalogue.h"
#include "trace/store/finisher.h"
#include "trace/store/reader.h"
#include "trace/store/row_io.h"
#include "trace/store/source.h"
#include "trace/store/trace_file.h"
#include "trace/store/writer.h"

namespace shardscope::store {
namespace {

// Follows one trace, from live segment to live segment (writer.h) and over the moment
// in which it is finished.
class FileSource final : public Source {
 public:
  static Result<std::unique_ptr<FileSource>> Open(const TraceFile& file);

  Result<bool> Read(RowBatch* batch) override;
  SourceState state() const override { return state_; }

 private:
  // Ids for capability rows that are in no file; a file has no 2^39 rows.
  static constexpr int64_t kFirstRemovedId = int64_t{1} << 39;

  explicit FileSource(TraceFile file) : file_(std::move(file)) {}

  Status Use(TraceReader reader);
  Status OpenNewest();
  // The next segment; 0: there is none yet. If there is one, no more rows come to segment_.
  int64_t Successor() const;
  Status CheckNoGap();
  void CheckWriter(RowBatch* batch);
  Result<bool> ReadTables(RowBatch* batch);
  Result<bool> ReadTable(AnyRows* rows);
  Status ReadState();
  // What was removed to keep the size bound: taken out of the meta rows from `first_meta` on, and
  // what is new of it added to *batch as capability rows, which add up over the files of a run.
  void SayRemoved(size_t first_meta, RowBatch* batch);

  const TraceFile file_;
  std::optional<TraceReader> reader_;
  int64_t segment_ = 0;  // that reader_ has open; 0: the finished file
  // The last step of which rows were missing when this source began; -1: none. Its other rows are
  // left out. Steps that are removed later were read before.
  int64_t skip_through_step_ = -1;
  int64_t data_version_ = -1;   // of reader_, at the last Read
  bool more_ = false;           // the last Read left rows
  bool has_caught_up_ = false;  // a Read has left none of the other tables of reader_
  int64_t next_writer_check_ns_ = 0;
  std::array<int64_t, schema::kNumTables> last_id_ = {};  // ids start at 1
  int64_t removed_engine_ = 0;                            // reported so far
  int64_t removed_memory_ = 0;
  int64_t last_removed_id_ = kFirstRemovedId;
  SourceState state_ = SourceState::kLive;
};

// Bounds the memory of one Read, and how long its read transaction keeps the writer's log from
// being reset: about 50 ms.
constexpr size_t kRowsPerTable = 100'000;

// How often a silent live file is asked whether its writer still lives.
constexpr int64_t kWriterCheckNs = kNsPerSecond;

// Says that the file of a killed run stays as it was left, and why. Id of no row of a file.
schema::CapabilityRow UnfinishedRow(const std::string& reason) {
  schema::CapabilityRow row =
      schema::CapabilityRowOf(trace_keys::kFinisher, words::CapabilityStatus::kPartial, reason);
  row.id = schema::CapabilityId((int64_t{1} << 39) - 1);
  return row;
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
  // The newest segment has what was removed before the one that is open now.
  const std::vector<int64_t> segments = LiveSegments(file);
  if (!segments.empty() && segments.back() == source->segment_) return source;
  Result<TraceReader> newest =
      TraceReader::OpenSegment(file, segments.empty() ? source->segment_ : segments.back());
  if (!newest.ok()) {  // finished meanwhile
    SHARDSCOPE_RETURN_IF_ERROR(source->OpenNewest());
    return source;
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const int64_t dropped,
      newest->database().QueryInteger(
          fmt::format("SELECT coalesce(max(CAST(value AS INTEGER)), -1) FROM meta WHERE key = '{}'",
                      kDroppedThroughStep)));
  source->skip_through_step_ = dropped;
  return source;
}

Status FileSource::Use(TraceReader reader) {
  segment_ = reader.segment();
  reader_ = std::move(reader);
  data_version_ = -1;
  has_caught_up_ = false;
  return CheckNoGap();
}

Status FileSource::OpenNewest() {
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::OpenNewest(file_));
  return Use(std::move(reader));
}

int64_t FileSource::Successor() const {
  const std::vector<int64_t> segments = LiveSegments(file_);
  const auto next = std::upper_bound(segments.begin(), segments.end(), segment_);
  return next == segments.end() ? 0 : *next;
}

// What was read so far and a later file must fit together: its memory events start from a balance.
Status FileSource::CheckNoGap() {
  for (const Table* table : {&kTable<schema::OpRunRow>, &kTable<schema::MemoryEventRow>}) {
    const int64_t last_id = last_id_[table->index];
    if (last_id == 0) continue;
    SHARDSCOPE_ASSIGN_OR_RETURN(
        const int64_t first, reader_->database().QueryInteger(
                                 fmt::format("SELECT coalesce(min(id), 0) FROM {}", table->name)));
    if (first <= last_id + 1) continue;
    return Status::Error(
        fmt::format("{}: this reader was so late that rows it had not read were removed to keep "
                    "record.max_bytes: open the run again",
                    file_.stem));
  }
  return Status::Ok();
}

Result<bool> FileSource::ReadTable(AnyRows* rows) {
  if (!rows->table().has_id) {
    SHARDSCOPE_RETURN_IF_ERROR(reader_->ReadAll(rows).status());
    return false;
  }
  int64_t& last_id = last_id_[rows->table().index];
  const size_t before = rows->size();
  SHARDSCOPE_ASSIGN_OR_RETURN(const size_t count, reader_->ReadAfter(last_id, kRowsPerTable, rows));
  if (count == 0) return false;
  last_id = rows->IdOf(rows->size() - 1);
  rows->RemoveThroughStep(before, skip_through_step_);
  return count == kRowsPerTable;
}

Status FileSource::ReadState() {
  if (segment_ > 0) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string state, reader_->State());
  state_ = state == Name(words::TraceState::kCut) ? SourceState::kCut : SourceState::kFinished;
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
    schema::CapabilityRow removed = schema::CapabilityRowOf(
        source, words::CapabilityStatus::kPartial,
        fmt::format("steps to {} were removed to keep record.max_bytes", through), count - *said);
    removed.id = schema::CapabilityId(++last_removed_id_);
    batch->Get<schema::CapabilityRow>().push_back(std::move(removed));
    *said = count;
  };
  for (auto row = begin; row != meta.end(); ++row) {
    say(*row, kDroppedEngine, "engine", &removed_engine_);
    say(*row, kDroppedMemory, trace_keys::kMemorySource, &removed_memory_);
  }
  const auto is_count = [](const schema::MetaRow& row) {
    return row.key == kDroppedEngine || row.key == kDroppedMemory;
  };
  meta.erase(std::remove_if(begin, meta.end(), is_count), meta.end());
}

// Of what was there already, steps come last, once nothing else waits: there are so few of them
// that one Read would have them all beside the first of their op runs, and figures of a step
// without these are false.
Result<bool> FileSource::ReadTables(RowBatch* batch) {
  bool more = false;
  const size_t first_meta = batch->Get<schema::MetaRow>().size();
  Status status = reader_->database().Execute("BEGIN");
  const auto read = [&](size_t table) {
    const Result<bool> left = ReadTable(&batch->At(table));
    if (left.ok()) {
      more |= left.value();
    } else {
      status = left.status();
    }
  };
  constexpr size_t kSteps = kTable<schema::StepRow>.index;
  for (size_t table = 0; table < schema::kNumTables && status.ok(); ++table) {
    if (table != kSteps && !batch->At(table).table().derived) read(table);
  }
  has_caught_up_ = has_caught_up_ || (status.ok() && !more);
  if (status.ok() && has_caught_up_) read(kSteps);
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
  const bool was_live = state_ == SourceState::kLive;
  CheckWriter(batch);
  // Before its end the writer may have written more than was seen above.
  const bool is_newly_cut = was_live && state_ == SourceState::kCut;
  return is_newly_cut || (segment_ > 0 && Exists(file_.FinishedPath()));
}

std::string ProcessOf(const std::string& stem) {
  std::string name = std::filesystem::path(stem).filename().string();
  constexpr std::string_view kTrace = "trace-";
  if (name.starts_with(kTrace)) name.erase(0, kTrace.size());
  return name;
}

schema::MetaRow ProcessName(size_t file, const std::string& stem) {
  return {fmt::format("{}{}", kProcessPrefix, file), ProcessOf(stem)};
}

Result<Database> Merge(const RunFiles& run) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Database merged, Database::OpenInMemory());
  for (const std::string& table : schema::CreateTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(merged.Execute(table));
  }
  Result<std::unique_ptr<RunSource>> source = RunSource::Open(run, RunSource::Purpose::kReadOnce);
  if (!source.ok()) return source.status();
  for (bool more = true; more;) {
    RowBatch batch;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool left, source.value()->Read(&batch));
    more = left;
    SHARDSCOPE_RETURN_IF_ERROR(InsertBatch(batch, &merged));
  }
  for (const std::string& index : schema::CreateIndexes()) {
    SHARDSCOPE_RETURN_IF_ERROR(merged.Execute(index));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CreateViews(ViewsOf::kConnection, &merged));
  merged.Seal();
  return merged;
}

}  // namespace

Result<std::unique_ptr<RunSource>> RunSource::Open(const RunFiles& run, Purpose purpose) {
  std::unique_ptr<RunSource> source(new RunSource(run, purpose));
  for (const TraceFile& file : run.traces) SHARDSCOPE_RETURN_IF_ERROR(source->AddFile(file));
  source->whole_folder_ = run.traces.size() == ListTraces(run.path).size();
  return source;
}

Status RunSource::AddFile(const TraceFile& file) {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::unique_ptr<FileSource> source, FileSource::Open(file));
  sources_.push_back(std::move(source));
  stems_.push_back(file.stem);
  return Status::Ok();
}

// The processes of a run create their files one after the other.
void RunSource::AddNewFiles() {
  if (!whole_folder_ || state() != SourceState::kLive || MonotonicNs() < next_look_ns_) return;
  next_look_ns_ = MonotonicNs() + kNsPerSecond;
  for (const TraceFile& file : ListTraces(run_.path)) {
    if (std::find(stems_.begin(), stems_.end(), file.stem) != stems_.end()) continue;
    // A file that is just being created is no trace yet; it is looked at again in a second.
    (void)AddFile(file);
  }
}

void RunSource::NameProcesses(RowBatch* batch) {
  if (stems_.size() < 2) return;
  for (; named_processes_ < stems_.size(); ++named_processes_) {
    batch->Get<schema::MetaRow>().push_back(
        ProcessName(named_processes_, stems_[named_processes_]));
  }
}

Result<bool> RunSource::Read(RowBatch* batch) {
  AddNewFiles();
  if (!run_.unfinished.empty() && !said_unfinished_) {
    said_unfinished_ = true;
    batch->Get<schema::CapabilityRow>().push_back(UnfinishedRow(run_.unfinished));
  }
  NameProcesses(batch);
  std::vector<RowBatch> rows(sources_.size());
  std::atomic<bool> more = false;
  // One after the other while a run lives: then it has few new rows.
  const size_t num_threads = purpose_ == Purpose::kReadOnce ? NumCores() : 1;
  SHARDSCOPE_RETURN_IF_ERROR(ForEachIndex(sources_.size(), num_threads, [&](size_t i) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool left, sources_[i]->Read(&rows[i]));
    if (left) more = true;
    ShiftIds(IdShift(i), &rows[i]);
    return Status::Ok();
  }));
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_.size() == 1) {
      merger_.PassOnly(std::move(rows[i]), batch);
    } else {
      merger_.Add(i, std::move(rows[i]));
    }
  }
  if (sources_.size() == 1) return more.load();
  const bool last = state() != SourceState::kLive || purpose_ == Purpose::kReadOnce;
  merger_.Take(more   ? ClockMerger::Outlook::kMoreRows
               : last ? ClockMerger::Outlook::kLast
                      : ClockMerger::Outlook::kLive,
               batch);
  return more.load();
}

RowBatch MergeFiles(const RunFiles& run, std::vector<RowBatch> files) {
  if (files.size() == 1) return std::move(files.front());
  RowBatch batch;
  ClockMerger merger;
  for (size_t i = 0; i < files.size(); ++i) {
    batch.Get<schema::MetaRow>().push_back(ProcessName(i, run.traces[i].stem));
    ShiftIds(IdShift(i), &files[i]);
    merger.Add(i, std::move(files[i]));
  }
  merger.Take(ClockMerger::Outlook::kLast, &batch);
  return batch;
}

SourceState RunSource::state() const {
  SourceState state = SourceState::kFinished;
  for (const std::unique_ptr<Source>& source : sources_) {
    if (source->state() == SourceState::kLive) return SourceState::kLive;
    if (source->state() == SourceState::kCut) state = SourceState::kCut;
  }
  return state;
}

Result<Database> OpenRunDatabase(const RunFiles& run) {
  if (run.traces.size() > 1 || LiveSegments(run.traces.front()).size() > 1) return Merge(run);
  SHARDSCOPE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::OpenNewest(run.traces.front()));
  return std::move(reader).TakeDatabase();
}

}  // namespace shardscope::store
