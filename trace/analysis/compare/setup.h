// How two runs were set up: their configuration, schedules and memory. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/compare/side.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Between the values of a key that a knob was turned to in the steps that are compared.
inline constexpr std::string_view kThen = ", then ";

// One key with two values; empty: that side has none. Several of a side, in the order in which they
// came, have kThen between them.
struct SettingDifference {
  std::string key;
  std::string a;
  std::string b;
};

// The facts of the runs that differ (ranks, device, model, ...), then the keys of the configuration
// in force in `steps_a` and `steps_b`, the steps that are compared, ascending. Names of runs and
// sockets are left out; the configuration, too, unless both are our own runs or both were imported.
std::vector<SettingDifference> SettingDifferences(const query::Snapshot& a,
                                                  const std::vector<int32_t>& steps_a,
                                                  const query::Snapshot& b,
                                                  const std::vector<int32_t>& steps_b);

// Steps of the range, behind its first one, at which a knob was turned; ascending.
std::vector<int32_t> KnobsTurnedWithin(const query::Snapshot& snapshot,
                                       const std::vector<int32_t>& steps);

// What is known of the order of a step's collectives, as it was seen in the middle steps.
struct ScheduleFacts {
  std::vector<std::string> names;   // of the Schedules of these steps; none if inferred
  std::optional<int> forward_lead;  // units ahead that all-gathers were issued; median of units
  std::optional<int> backward_lead;
  int gathered_units = 0;  // with an all-gather in the forward
  int gathered_again = 0;  // and another one in the backward
  double collectives = 0;  // of a rank in a step
  double sent_bytes = 0;   // likewise, on the wire; 0: not known
};
ScheduleFacts ScheduleOf(const query::Snapshot& snapshot, const MeasuredSide& side);

struct PeakFacts {
  int64_t peak_bytes = 0;  // of the rank that took most, in the steps that are compared; 0: no rows
  int64_t driver_bytes = 0;  // that a process held from the GPU's driver; likewise
};
PeakFacts PeaksOf(const query::Snapshot& snapshot, const MeasuredSide& side);

}  // namespace shardscope::analysis
