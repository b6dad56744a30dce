// What collectives say about two clocks: a line through noisy differences of their ends. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace shardscope::store {

// One collective seen by two clocks. All ranks of a collective end at about the same time, and none
// ends before the last one has started.
struct EndPair {
  int64_t local_ns = 0;    // its end on the clock to be placed
  int64_t offset_ns = 0;   // its end on the common clock - local_ns
  int64_t lowest_ns = 0;   // offsets below this would end it here before it started there
  int64_t highest_ns = 0;  // offsets above this would start it here after it ended there
};

// offset = common - local, as a line over local time.
struct ClockLine {
  int64_t at_ns = 0;
  int64_t offset_ns = 0;
  int64_t drift_ppb = 0;

  int64_t OffsetAt(int64_t local_ns) const;
};

// Robust: up to a quarter of the pairs may be anything. The line obeys the bounds if any line of
// its slope does. Pairs in any order; at least one.
ClockLine FitLine(std::span<const EndPair> pairs);

}  // namespace shardscope::store
