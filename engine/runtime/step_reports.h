// StepReports: what each rank reports of its steps, put together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "trace/base/mutex.h"

namespace shardscope::runtime {

// One step, of one rank or, for the progress line, of all.
struct StepReport {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;     // mean over all tokens
  bool counts = true;  // false: no token counts in the loss, which is 0
  double grad_norm = 0;
  int64_t tokens = 0;            // of all ranks
  int64_t step_ns = 0;           // the slowest rank's
  int64_t exposed_ns = 0;        // exposed communication, mean over ranks
  int64_t communication_ns = 0;  // mean over ranks
  int64_t peak_bytes = 0;        // in this step, of the rank that had most
};

// Threads: any.
class StepReports {
 public:
  explicit StepReports(int num_ranks) : num_ranks_(num_ranks) {}

  // The report of all ranks, once the last of them has come.
  std::optional<StepReport> Add(int rank, const StepReport& report);

  // The newest step that all ranks have reported.
  std::optional<StepReport> Last() const;

 private:
  struct Collected {
    int num_reports = 0;
    std::vector<StepReport> by_rank;
  };

  const int num_ranks_;
  mutable Mutex mutex_;
  std::map<int64_t, Collected> steps_ GUARDED_BY(mutex_);  // that some ranks have finished
  std::optional<StepReport> last_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::runtime
