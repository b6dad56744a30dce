// Progress: how many collectives each rank has issued on each communicator, so that the message of
// a timeout can name the rank that is late.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "engine/plan/op.h"

namespace shardscope::cuda {

// Threads: any.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void Set(int rank, plan::CommunicatorIndex communicator, int64_t num_issued) = 0;
  virtual int64_t Get(int rank, plan::CommunicatorIndex communicator) = 0;  // 0: none is known of
};

// Of ranks that are threads of this process.
class ProgressInProcess final : public Progress {
 public:
  void Set(int rank, plan::CommunicatorIndex communicator, int64_t num_issued) override {
    const std::lock_guard lock(mutex_);
    num_issued_[{rank, communicator}] = num_issued;
  }
  int64_t Get(int rank, plan::CommunicatorIndex communicator) override {
    const std::lock_guard lock(mutex_);
    const auto found = num_issued_.find({rank, communicator});
    return found == num_issued_.end() ? 0 : found->second;
  }

 private:
  std::mutex mutex_;  // guards num_issued_
  std::map<std::pair<int, int>, int64_t> num_issued_;
};

}  // namespace shardscope::cuda
