// What the changes of knobs did: as many steps before each as after it. Pure; the app's card and
// `shardscope report` agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/steps/breakdown.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Report;

// At most this many steps on each side: what lies further away may have had other reasons.
inline constexpr int kMaxChangeSteps = 32;
// Steps on each side that a comparison needs before it is shown.
inline constexpr int kLeastChangeSteps = 3;

// Changes below this share are called noise however narrow the spread is.
inline constexpr double kSmallestChange = 0.01;

// What was changed at one step, and the steps [step - num_steps, step) and [step, step +
// num_steps).
struct ChangeEffect {
  int32_t step = 0;
  std::vector<query::Marker> markers;  // at least one
  int32_t num_steps = 0;  // on each side: none of warm-up, none beyond the next change; may be 0
  bool may_complete = false;  // there are enough steps before it, and no change behind it
  Summary before;
  Summary after;

  bool complete() const { return num_steps >= kLeastChangeSteps; }
};

// Whether the change from `before` to `after` is larger than the spread of either.
bool IsBeyondNoise(const Percentiles& before, const Percentiles& after);

// By step. `steps` of all ranks, of which only those count that every rank finished.
std::vector<ChangeEffect> EffectsOfChanges(const std::vector<StepBreakdown>& steps,
                                           const std::vector<query::Marker>& markers);

// Those at a step of the report's scope; what is before each may lie before the scope.
std::vector<ChangeEffect> ChangesInScope(const Report& report);

// A part of the report's text; empty without changes.
std::string PrintChanges(const Report& report);

}  // namespace shardscope::analysis
