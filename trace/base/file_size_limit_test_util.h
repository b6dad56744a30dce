// For tests: what stands for a disk that gets full.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include "trace/base/check.h"

namespace shardscope {

// While one lives, no file of this process may grow beyond `bytes`: a write beyond them fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : signal_before_(std::signal(SIGXFSZ, SIG_IGN)) {
    SHARDSCOPE_CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    SHARDSCOPE_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    SHARDSCOPE_CHECK(setrlimit(RLIMIT_FSIZE, &before_) == 0);
    std::signal(SIGXFSZ, signal_before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*const signal_before_)(int);
};

}  // namespace shardscope
