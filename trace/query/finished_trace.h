// Traces that a thread of their own reads: what they publish, and the one that loads large finished
// runs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/query/live_trace.h"
#include "trace/query/run_part.h"
#include "trace/store/finished_source.h"
#include "trace/store/run_files.h"
#include "trace/store/source.h"

namespace shardscope::query {

class SnapshotBuilder;

// What a reading thread has published for the others.
class PublishingTrace : public LiveTrace {
 public:
  SnapshotPtr Latest() const final {
    const MutexLock lock(mutex_);
    return latest_;
  }
  Status status() const final {
    const MutexLock lock(mutex_);
    return status_;
  }

 protected:
  void Publish(SnapshotPtr snapshot) {
    const MutexLock lock(mutex_);
    latest_ = std::move(snapshot);
  }
  void SetStatus(const Status& status) {
    const MutexLock lock(mutex_);
    status_ = status;
  }

 private:
  mutable Mutex mutex_;
  SnapshotPtr latest_ GUARDED_BY(mutex_);
  Status status_ GUARDED_BY(mutex_);
};

// For the rows of a run that needs so much; what this process has is mostly of the run that is
// closed for this one.
int64_t MemoryToUse(const ReadLimits& limits, const RunMemory& needed);

// A large finished run. The first Snapshot (`loading`) has the steps around the newest change of a
// knob, or the last ones; the second and last one, from a thread of its own, has everything, or as
// many steps around those as fit into memory (`part`).
class FinishedTrace final : public PublishingTrace {
 public:
  // Null if the run is not one for this class: a file of it is live or bounded in size, or all are
  // small. `on_change` as of LiveTrace::Open().
  static Result<std::unique_ptr<LiveTrace>> OpenLarge(
      const store::RunFiles& run, const std::function<void()>& on_change,
      const ReadLimits& limits = {}, int64_t least_bytes = store::FinishedSource::kLargeBytes);

  ~FinishedTrace() override;

 private:
  FinishedTrace(store::RunFiles run, std::function<void()> on_change)
      : run_(std::move(run)), on_change_(std::move(on_change)) {}

  // Both of memory: for the whole run, and what there is for it.
  Status Start(const RunMemory& needed, int64_t memory_bytes);
  store::SourceState State() const;
  // Small tables and first steps; *shown: the last that the app shows of these.
  Status ReadFirst(store::RowBatch* batch, int64_t* shown);
  // The filter of part_, and the rest of part_.
  Result<PartFilter> FilterOfPart();
  // All step rows, and what tells how clocks differ and when the run began.
  Result<store::RowBatch> ReadTimes();
  // Everything, or the part of `filter`, of the only file or of all.
  Status LoadFile(PartFilter* filter, SnapshotBuilder* builder);
  Status LoadRows(PartFilter* filter, store::RowBatch batch, SnapshotBuilder* builder);
  Status LoadFiles(PartFilter* filter, SnapshotBuilder* builder);
  Status LoadAll(SnapshotBuilder* builder);
  void Load();

  const store::RunFiles run_;
  const std::function<void()> on_change_;
  std::vector<std::unique_ptr<store::FinishedSource>> sources_;  // of thread_, once that runs
  store::StepBounds bounds_;                                     // on the clock of the first file
  std::optional<int64_t> around_step_;
  std::optional<RunPart> part_;  // none: all fits
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace shardscope::query
