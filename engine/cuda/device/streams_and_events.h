// The CUDA streams and events of a rank. Threads: the rank's host thread, with its device set;
// destroyed with no step running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/runtime_api.h"
#include "engine/plan/schedule.h"

namespace shardscope::cuda {

// One stream for each name of a stream in its Schedules.
class DeviceStreams {
 public:
  // `log` is told of every stream; borrowed, may be null.
  DeviceStreams(const RuntimeApi& api, int rank, DeviceLog* log)
      : api_(api), rank_(rank), log_(log) {}
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;

  // By StreamIndex. A stream lives as long as this: Schedules that change need not make new ones.
  std::vector<Stream> Of(const plan::Schedule& schedule);

 private:
  Stream Make(const plan::Stream& stream) const;

  const RuntimeApi api_;
  const int rank_;
  DeviceLog* const log_;
  std::map<std::string, Stream> streams_;  // by name
};

// Events of one kind, used again step after step.
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

// Times of events on the host's clock, for where CUPTI is not to be had.
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
