// What is said on a terminal while something is imported.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

#include "trace/base/mutex.h"
#include "trace/import/import.h"

namespace shardscope::app {

// One line on standard error that is written over, if that is a terminal and it takes a second or
// more. A first SIGINT, SIGTERM or SIGHUP stops the import, so that nothing of it is left; a second
// one ends the program at once. One at a time.
class ImportProgress {
 public:
  ImportProgress();

  // For one import; this outlives it.
  imports::ImportOptions Options();
  // Removes the line. Where a signal stopped the import, the program ends by it.
  void End();

 private:
  void Show(int64_t read_bytes, int64_t all_bytes);

  std::array<struct sigaction, 3> before_ = {};  // what the signals did
  const int64_t started_ns_;
  const bool is_terminal_;
  Mutex mutex_;
  int64_t shown_ns_ GUARDED_BY(mutex_) = 0;
  bool is_shown_ GUARDED_BY(mutex_) = false;
};

// The run that `path` is; what another profiler recorded is imported first.
Result<std::string> RunOfPath(const std::string& path);

}  // namespace shardscope::app
