// RunMessages: what the user is told of a run while it trains, line by line and step by step, and
// what of it goes into the run's log.txt.
#pragma once

#include <optional>
#include <string>

#include "engine/runtime/run_folder.h"
#include "engine/runtime/step_reports.h"
#include "engine/runtime/trainer.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {

// Threads: any. One message at a time: the next one waits until the listener has returned.
class RunMessages {
 public:
  // Both are borrowed; the folder is there before the first line.
  RunMessages(const TrainerOptions& options, const std::optional<RunFolder>& folder, int num_ranks)
      : options_(options), folder_(folder), reports_(num_ranks) {}

  // A line for the user, which goes into the log as well. Nothing where rank 0 is elsewhere.
  void Say(const std::string& text) EXCLUDES(mutex_);
  // A line for the log alone, of any process. It does not wait for a listener.
  void Log(const std::string& text);

  // What `rank` reports of a step. Once the last of all ranks has come the user is told of it.
  void AddStep(int rank, const StepReport& report) EXCLUDES(mutex_);
  // The newest step that all ranks have reported.
  std::optional<StepReport> LastStep() const { return reports_.Last(); }

 private:
  const TrainerOptions& options_;
  const std::optional<RunFolder>& folder_;
  StepReports reports_;
  Mutex mutex_;  // held while the user is told
};

}  // namespace shardscope::runtime
