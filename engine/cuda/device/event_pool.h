// EventPool: CUDA events of one kind, used again step after step.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cuda/device/runtime_api.h"

namespace shardscope::cuda {

// Threads: the rank's host thread.
class EventPool {
 public:
  // `flags` as cudaEventCreateWithFlags takes them.
  EventPool(const RuntimeApi& api, unsigned flags) : api_(api), flags_(flags) {}
  ~EventPool() {
    for (const Event event : events_) api_.EventDestroy(event);
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // One that was not taken since the last TakeAllBack().
  Event Take() {
    if (num_taken_ == events_.size()) {
      Event event = nullptr;
      Check(api_, "cudaEventCreateWithFlags", api_.EventCreateWithFlags(&event, flags_));
      events_.push_back(event);
    }
    return events_[num_taken_++];
  }

  // All waits for them are over.
  void TakeAllBack() { num_taken_ = 0; }

 private:
  const RuntimeApi api_;
  const unsigned flags_;
  std::vector<Event> events_;
  size_t num_taken_ = 0;
};

}  // namespace shardscope::cuda
