// StepObserver: listens to the executors between them and the trace, and keeps what the trainer
// itself needs of the running step: exposed communication for the progress line, forward times for
// link.bandwidth=auto, the first issue.
//
// Threads: sink methods on stream threads; the others on the rank's host thread between its steps.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/executor/execution_sink.h"
#include "trace/base/interval.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {

// What a rank's step was, in time.
struct StepTimes {
  int64_t first_issue_ns = 0;
  int64_t communication_ns = 0;
  int64_t exposed_ns = 0;
  // Duration of the forward of each unit that ran one, summed over its segments; by micro-batch.
  std::vector<std::pair<int32_t, int64_t>> unit_forward_ns;
  std::vector<std::pair<int32_t, int64_t>> segment_forward_ns;  // of each segment's
};

class StepObserver : public executor::ExecutionSink {
 public:
  explicit StepObserver(int num_ranks);

  // What gets everything after this; borrowed. Before the first step.
  void set_next(executor::ExecutionSink* next) { next_ = next; }

  void OnOpEnd(const executor::OpContext& context, const executor::OpTimes& times) override;
  void OnMemory(const executor::OpContext& context, plan::BufferId buffer, int64_t bytes,
                int64_t issued_ns, int64_t executed_ns) override;
  void OnOtherMemory(const executor::OpContext& context,
                     const executor::MemoryChange& change) override;

  // What was seen of `rank` since the last call.
  StepTimes Take(int rank);

 private:
  struct Forward {
    int32_t unit;
    int32_t micro_batch;
    int64_t duration_ns;
  };
  struct OfRank {
    Mutex mutex;
    int64_t first_issue_ns GUARDED_BY(mutex) = 0;
    std::vector<Interval> compute GUARDED_BY(mutex);
    std::vector<Interval> communication GUARDED_BY(mutex);
    std::vector<Forward> forwards GUARDED_BY(mutex);
    std::vector<std::pair<int32_t, int64_t>> segment_forward_ns GUARDED_BY(mutex);
  };

  executor::ExecutionSink* next_ = nullptr;
  std::vector<std::unique_ptr<OfRank>> ranks_;
};

}  // namespace shardscope::runtime
