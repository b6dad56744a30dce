#include "trace/store/run_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trace/base/time.h"
#include "trace/store/file_source.h"

namespace shardscope::store {
namespace {

std::string ProcessOf(const std::string& stem) {
  std::string name = std::filesystem::path(stem).filename().string();
  constexpr std::string_view kTrace = "trace-";
  if (name.starts_with(kTrace)) name.erase(0, kTrace.size());
  return name;
}

}  // namespace

Result<std::unique_ptr<RunSource>> RunSource::Open(const RunFiles& run, Purpose purpose) {
  std::unique_ptr<RunSource> source(new RunSource(run, purpose));
  for (const TraceFile& file : run.traces) SHARDSCOPE_RETURN_IF_ERROR(source->AddFile(file));
  source->whole_folder_ = run.traces.size() == ListTraces(run.path).size();
  return source;
}

Status RunSource::AddFile(const TraceFile& file) {
  Result<std::unique_ptr<FileSource>> source = FileSource::Open(file);
  if (!source.ok()) return source.status();
  sources_.push_back(std::move(source).value());
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
    batch->Get<schema::MetaRow>().push_back({fmt::format("{}{}", kProcessPrefix, named_processes_),
                                             ProcessOf(stems_[named_processes_])});
  }
}

Result<bool> RunSource::Read(RowBatch* batch) {
  AddNewFiles();
  if (!run_.unfinished.empty() && !said_unfinished_) {
    said_unfinished_ = true;
    batch->Get<schema::CapabilityRow>().push_back(UnfinishedRow(run_.unfinished));
  }
  NameProcesses(batch);
  bool more = false;
  for (size_t i = 0; i < sources_.size(); ++i) {
    RowBatch rows;
    const Result<bool> left = sources_[i]->Read(&rows);
    if (!left.ok()) return left.status();
    more |= left.value();
    ShiftIds(IdShift(i), &rows);
    if (sources_.size() == 1) {
      merger_.PassOnly(std::move(rows), batch);
    } else {
      merger_.Add(i, std::move(rows));
    }
  }
  if (sources_.size() == 1) return more;
  const bool last = state() != SourceState::kLive || purpose_ == Purpose::kReadOnce;
  merger_.Take(more   ? ClockMerger::Outlook::kMoreRows
               : last ? ClockMerger::Outlook::kLast
                      : ClockMerger::Outlook::kLive,
               batch);
  return more;
}

SourceState RunSource::state() const {
  SourceState state = SourceState::kFinished;
  for (const std::unique_ptr<Source>& source : sources_) {
    if (source->state() == SourceState::kLive) return SourceState::kLive;
    if (source->state() == SourceState::kCut) state = SourceState::kCut;
  }
  return state;
}

}  // namespace shardscope::store
