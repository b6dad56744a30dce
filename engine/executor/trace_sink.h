// TraceSink: turns what the executor reports into rows of the trace. The only link from op runs to
// the Recorder.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/executor/executor.h"
#include "trace/record/recorder.h"

namespace shardscope::executor {

struct CollectiveInfo {
  std::string transport;  // "shared_memory", "emulated"
  std::string truth;      // "measured", "emulated"
};

// Threads: RegisterSchedule before the Schedule runs; the sink methods on any thread.
class TraceSink : public ExecutionSink {
 public:
  // `recorder` outlives this.
  TraceSink(record::Recorder* recorder, CollectiveInfo info);

  // Writes schedule, plan ops, edges and (once per rank and stream name) tracks. Returns the
  // schedule's id. Call on one thread while no step runs.
  int64_t RegisterSchedule(const plan::Schedule& schedule, const std::vector<int>& ranks,
                           int64_t predicted_peak_bytes);

  void OnOpEnd(const OpContext& context, const OpTimes& times) override;
  void OnMemory(const OpContext& context, plan::BufferId buffer, int64_t bytes, int64_t issued_ns,
                int64_t executed_ns) override;

  // Memory outside ops (persistent shards, optimizer state, tensors of the model library).
  void OnMemoryOutsideOps(int rank, plan::MemoryCategory category, const std::string& unit,
                          int64_t bytes, int64_t time_ns);

 private:
  struct Registered;
  record::Recorder* recorder_;
  CollectiveInfo info_;
  std::map<const plan::Schedule*, std::unique_ptr<Registered>> schedules_;
};

}  // namespace shardscope::executor
