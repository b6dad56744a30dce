// EventClock: times of CUDA events on the host's clock, for where CUPTI is not to be had.
#pragma once

#include <cstdint>

#include "engine/cuda/device/runtime_api.h"

namespace shardscope::cuda {

// Threads: the rank's host thread, with its device set.
class EventClock {
 public:
  explicit EventClock(const RuntimeApi& api) : api_(api) {}
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  // Ties the GPU's clock to the host's: records an event on an idle stream between two looks at
  // CLOCK_MONOTONIC, a few times, and keeps the closest pair. Once a step: over a step the clocks
  // do not drift measurably.
  void Anchor();

  // When `event`, recorded after Anchor() and passed, was passed.
  int64_t TimeOf(Event event) const;

  // Half the distance of that pair: all times may be off by so much, together.
  int64_t uncertainty_ns() const { return uncertainty_ns_; }

 private:
  const RuntimeApi api_;
  Stream stream_ = nullptr;
  Event base_ = nullptr;   // of the closest pair
  Event spare_ = nullptr;  // for the next try
  int64_t base_ns_ = 0;
  int64_t uncertainty_ns_ = 0;
};

}  // namespace shardscope::cuda
