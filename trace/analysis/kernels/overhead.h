// What recording costs, as the run itself measured it (record.measure_overhead). Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Overhead {
  int rounds = 0;  // comparisons; 0: nothing was measured
  // Time of a recorded step over that of one that was not: median, lowest and highest of all
  // rounds.
  double ratio = 0;
  double lowest = 0;
  double highest = 0;
  int64_t recorded_ns = 0;  // time of a step, median over the rounds
  int64_t unrecorded_ns = 0;
  std::vector<int32_t> left_out;  // steps of which nothing else is in the trace, ascending
};

// The same figures as view v_overhead. A step takes as long as its slowest rank.
Overhead MeasureOverhead(const query::Snapshot& snapshot);

// One sentence, for reports and the app's trace health; empty if nothing was measured.
std::string Describe(const Overhead& overhead);

// The section of a report; empty if nothing was measured.
std::string PrintOverhead(const Overhead& overhead);

}  // namespace shardscope::analysis
