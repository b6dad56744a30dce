// TraceSink: turns what the executor reports into rows of the trace. The only link from op runs to
// the Recorder.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor/activity.h"
#include "engine/executor/execution_sink.h"
#include "trace/base/mutex.h"
#include "trace/base/words.h"
#include "trace/record/recorder.h"

namespace shardscope::executor {

struct CollectiveInfo {
  std::string transport;  // "shared_memory", "emulated"
  words::Truth truth = words::Truth::kMeasured;
  std::string device = "cpu";  // that memory events are of
};

// What a Schedule takes (engine/plan/memory.h), in bytes.
struct PredictedPeak {
  int64_t issued = 0;    // in issue order
  int64_t executed = 0;  // at most when its ops run
};
struct PredictedPeaks {
  PredictedPeak largest;               // of the rank that needs most
  std::vector<PredictedPeak> by_rank;  // of the Schedule; empty: not known
};

struct StepMemory {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t resident_bytes = -1;     // of the process; -1: another rank of it reports that
  int64_t device_used_bytes = -1;  // of the GPU, by any process; -1: likewise, or not known
};

// Threads: RegisterSchedule before the Schedule runs; the sink methods on any thread.
class TraceSink : public ExecutionSink {
 public:
  // `recorder` outlives this.
  TraceSink(record::Recorder* recorder, CollectiveInfo info);
  ~TraceSink() override;

  // Writes schedule, plan ops, edges and (once per rank and stream name) tracks. Returns the
  // schedule's id. Call on one thread while no step runs. `schedule` outlives this.
  schema::ScheduleId RegisterSchedule(const plan::Schedule& schedule, const std::vector<int>& ranks,
                                      const PredictedPeaks& predicted);

  // What the trace calls an op, and the track of its stream. Any thread.
  schema::PlanOpId PlanOpOf(const OpContext& context) const;
  schema::TrackId TrackOf(const OpContext& context) const;

  void OnOpEnd(const OpContext& context, const OpTimes& times) override;
  void OnMemory(const OpContext& context, plan::BufferId buffer, int64_t bytes, int64_t issued_ns,
                int64_t executed_ns) override;
  void OnOtherMemory(const OpContext& context, const MemoryChange& change) override;

  // The run ends while a rank is still in these ops: each becomes a span on its stream's track, up
  // to now, since an op run would claim that it ended.
  void OnUnfinished(const Activity& activity);

  // Memory outside ops (persistent shards, optimizer state, tensors of the model library).
  void OnMemoryOutsideOps(int rank, plan::MemoryCategory category, const std::string& unit,
                          int64_t bytes, int64_t time_ns);

  // What the allocators say at a step's end, beside the sum of all events: counters on the rank's
  // host track. After the first RegisterSchedule of the rank.
  void OnStepMemory(int rank, const StepMemory& memory);
  // Likewise what the optimizer stepped with; `loss_scale` 0: there is no gradient scaler.
  void OnStepRates(int rank, double learning_rate, double loss_scale, int64_t time_ns);

 private:
  struct Registered;

  const Registered& Find(const plan::Schedule* schedule) const;
  void AddGroups(const plan::Schedule& schedule, schema::ScheduleId schedule_id);
  std::vector<schema::PlanOpId> AddPlanOps(const plan::Schedule& schedule,
                                           schema::ScheduleId schedule_id, size_t program);
  std::vector<schema::TrackId> TracksOf(const plan::Schedule& schedule, int rank);
  schema::TrackId TrackOf(int rank, const plan::Stream& stream);
  void RecordMemory(const OpContext& context, int64_t issued_ns, const MemoryChange& change);
  // Of the first collective that `communicator` runs in this step.
  int64_t FirstSequence(const Registered& registered, const OpContext& context,
                        plan::CommunicatorIndex communicator);

  record::Recorder* const recorder_;
  const CollectiveInfo info_;
  const schema::StringId allocated_string_;  // string.id
  const schema::StringId reserved_string_;
  const schema::StringId resident_string_;
  const schema::StringId device_used_string_;
  const schema::StringId learning_rate_string_;
  const schema::StringId loss_scale_string_;

  // Written by RegisterSchedule only, read while steps run.
  std::map<const plan::Schedule*, std::unique_ptr<Registered>> schedules_;
  std::map<std::pair<int, std::string>, schema::TrackId> tracks_;  // by rank and stream name

  Mutex mutex_;
  std::map<std::string, int64_t> next_sequence_
      GUARDED_BY(mutex_);  // by communicator name, after all steps seen
  // The last steps and batches of evaluations: first sequence by communicator.
  std::map<int64_t, std::vector<int64_t>> steps_ GUARDED_BY(mutex_);
  std::deque<int64_t> order_ GUARDED_BY(mutex_);  // in which these came, the oldest first
};

}  // namespace shardscope::executor
