// Happens-before of one rank's program: which ops have surely ended when another one starts.
#pragma once

#include <vector>

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// A vector clock an op, with one entry a stream: the last op of that stream that has surely ended
// before the op starts. Enough because ops of one stream end in order.
class HappensBefore {
 public:
  // Dependencies must name earlier ops (CheckStructure).
  HappensBefore(const Program& program, int num_streams);

  // By stream the last op that has surely ended when `op` starts; kNone: none has.
  const std::vector<OpIndex>& EndedBefore(OpIndex op) const {
    return start_[static_cast<size_t>(op)];
  }

  // Whether `first` has ended when `second` starts, whatever the ops' durations.
  bool Ordered(OpIndex first, OpIndex second) const;

 private:
  using Clock = std::vector<OpIndex>;
  static void Join(const Clock& other, Clock* clock);
  Clock EndOf(OpIndex op) const;

  const Program& program_;
  std::vector<Clock> start_;  // by op
};

}  // namespace shardscope::plan
