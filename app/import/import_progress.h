// What is said on a terminal while something is imported.
#pragma once

#include <cstdint>

#include "trace/base/mutex.h"
#include "trace/import/import.h"

namespace shardscope::app {

// One line on standard error that is written over, if that is a terminal and it takes a second or
// more.
class ImportProgress {
 public:
  ImportProgress();

  // For one import; this outlives it.
  imports::ImportOptions Options();
  // Removes the line.
  void End();

 private:
  void Show(int64_t read_bytes, int64_t all_bytes);

  const int64_t started_ns_;
  const bool is_terminal_;
  Mutex mutex_;
  int64_t shown_ns_ GUARDED_BY(mutex_) = 0;
  bool is_shown_ GUARDED_BY(mutex_) = false;
};

// The run that `path` is; what another profiler recorded is imported first.
Result<std::string> RunOfPath(const std::string& path);

}  // namespace shardscope::app
