// ClockBounds: within what the times of each GPU are right against the host's clock.
//
// CUPTI turns the GPU's clock into the host's by interpolating between pairs of readings. What it
// gets wrong nothing measures, but cause and effect bound it: no work begins before the host began
// the call that asked for it, and all work of a stream has ended when the host returns from waiting
// for that stream. So what has to be added to a GPU's times is at least call - start and at most
// return - end, over all of its work.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/record/cupti/joiner.h"

namespace shardscope::gpu {

// The bounds of one GPU's clock in one second of a run.
struct ClockReading {
  uint32_t device = 0;
  int64_t time_ns = 0;  // the last wait's end
  int64_t low_ns = 0;   // at least so much has to be added to the GPU's times
  int64_t high_ns = 0;  // at most
  int64_t works = 0;    // behind low_ns
  int64_t waits = 0;    // behind high_ns
};

// One thread. The same records in any split give the same readings.
class ClockBounds {
 public:
  void Add(const cupti::Joined& joined);

  // The seconds that are over, or all of them; those with both bounds. By time, then device.
  std::vector<ClockReading> Take(bool all);

 private:
  // cupti::Work of a stream, by when it was asked for; `end_ns` is the latest of it and all before.
  struct Ended {
    int64_t call_ns = 0;
    int64_t end_ns = 0;
  };
  struct Stream {
    uint32_t device = 0;
    std::vector<Ended> ended;
    bool is_sorted = true;
  };

  void AddWait(const cupti::Wait& wait, const Stream& stream);
  ClockReading& ReadingAt(int64_t time_ns, uint32_t device);

  std::map<cupti::StreamId, Stream> streams_;
  std::map<std::pair<int64_t, uint32_t>, ClockReading> open_;  // by second and device
  int64_t newest_ns_ = 0;
};

}  // namespace shardscope::gpu
