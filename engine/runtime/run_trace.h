// RunTrace: the trace of a training as its trainer writes it: what the run is, its Schedules,
// steps, pauses and markers, and the memory between steps. Op runs go through sink().
//
// Threads: what names a rank on that rank's host thread, the rest on any thread while no step runs,
// unless it says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/executor/trace_sink.h"
#include "engine/runtime/overhead.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/run_folder.h"
#include "engine/runtime/steering.h"
#include "engine/runtime/trainer.h"
#include "trace/base/mutex.h"
#include "trace/base/resumed_from.h"
#include "trace/base/words.h"
#include "trace/record/recorder.h"

namespace shardscope::runtime {

// An evaluation as table evaluation has it, but for what names it.
struct EvaluationTimes {
  int64_t first_batch = 0;
  int64_t batches = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t tokens = 0;
  double loss = 0;
};

class RunTrace {
 public:
  struct Identity {
    std::string run_id;
    std::optional<ResumedFrom> resumed;
  };
  // Opens the trace in `folder`. All but the identity are borrowed.
  static Result<std::unique_ptr<RunTrace>> Open(const TrainerOptions& options,
                                                const Identity& identity, const RunFolder& folder,
                                                Ranks* ranks);
  ~RunTrace();

  // Where the executors report to.
  executor::ExecutionSink* sink() { return sink_.get(); }
  std::string path() const { return recorder_->path(); }

  // The rank's state lies otherwise from now on. On the rank's host thread, between steps.
  void MoveState(int rank, const StateLayout& from, const StateLayout& to);
  bool HasSchedule(const plan::Schedule& schedule) const;
  // One that it does not have; `schedule` outlives this. Returns its number in the run.
  int64_t AddSchedule(const plan::Schedule& schedule, const executor::PredictedPeaks& predicted);

  // A run has each marker once, in the leader's trace; only an error is each process's own. Any
  // thread.
  void Mark(int64_t step, words::MarkerKind kind, const ChangedKey& change);
  void Add(const DeviceCapability& capability, int64_t dropped = 0);
  void Add(schema::CheckpointRow row) { recorder_->Add(std::move(row)); }

  // record.steps, and the steps that are not recorded to measure what recording costs: `step`,
  // which begins, is recorded or not. All ranks call it where none has an op to record; true: it is
  // different from the step before, and no rank may go on until all have returned.
  bool BeginWindow(int rank, int64_t step, const config::StepWindow& window);
  // Around what record.measure_overhead times; see OverheadMeter.
  void EndMeasuredStep(int rank, const OverheadMeter::Moment& now);
  void BeginMeasuredStep(int rank, const OverheadMeter::Moment& now);
  bool IsUnrecorded(int64_t step) const { return overhead_.steps().IsUnrecorded(step); }

  // `step` begins now: what passed since the one before is in neither.
  void EndPause(int rank, int64_t step, std::string_view cause);

  // After a batch of an evaluation.
  void EndBatch(int rank) { AddStepMemory(rank); }
  // After all of them, before `step`.
  void AddEvaluation(int rank, int64_t step, const plan::Schedule& schedule,
                     const EvaluationTimes& evaluation);

  // The copy of the rank's state from which checkpoints are written takes so much memory; as its
  // state, it may be in the host's, which is in no total. Between two steps.
  void SetCopyBytes(int rank, int64_t bytes, bool is_on_host);

  // After a step of `rank`, which issued its first op at `first_issue_ns`. Returns the row.
  schema::StepRow AddStep(int rank, int64_t step, const plan::Schedule& schedule,
                          int64_t first_issue_ns);

  // Ops that `rank` is in, and will not end.
  void AddUnfinished(int rank) { sink_->OnUnfinished(ranks_.runner(rank).activity()); }

  // Whether a training without its trace is to end (record.on_error=stop).
  bool stops_on_error() const { return options_.config.Get("record.on_error") == "stop"; }
  // Between steps, on one host thread. Error: the file cannot be written, and the training is to
  // end then; if it goes on, `on_message` is told so once.
  Status CheckWriter(const std::function<void(const std::string& text)>& on_message);

  // After the last step; nothing may be added then.
  Status Finish();
  int64_t NumDropped() const;  // records, of all sources

 private:
  RunTrace(const TrainerOptions& options, Ranks* ranks);
  void AddRun(const RunFolder& folder);
  void AddPersistentMemory();
  // `sign`: 1 as it comes, -1 as it goes.
  void AddState(int rank, const StateLayout& layout, int sign, int64_t time_ns);
  void AddStepMemory(int rank);
  void AddRates(int64_t step, const StepOutcome& outcome, int64_t time_ns);
  bool is_leader() const { return options_.is_leader(); }

  const TrainerOptions& options_;
  Device& device_;
  Ranks& ranks_;
  OverheadMeter overhead_;
  std::unique_ptr<record::Recorder> recorder_;
  std::unique_ptr<executor::TraceSink> sink_;
  bool has_warned_ = false;  // that the file cannot be written

  mutable Mutex mutex_;
  std::map<const plan::Schedule*, schema::ScheduleId> schedule_ids_
      GUARDED_BY(mutex_);  // registered

  // By rank; each its own host thread's.
  std::vector<int64_t> step_start_ns_;  // of the next step, but the first
  std::vector<char> is_recording_;
  std::vector<int64_t> copy_bytes_;  // but what is in the host's memory
};

}  // namespace shardscope::runtime
