// What the changes of knobs did: the steps before each beside those after it. Pure; the app's card
// and `shardscope report` agree, and judge as Compare does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/compare/delta.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Report;

// At most this many steps on each side: what lies further away may have had other reasons.
inline constexpr int kMaxChangeSteps = 32;
// Steps on each side without which nothing is known of noise.
inline constexpr int kLeastChangeSteps = kLeastNoiseSteps;

// Changes of a peak of memory below this share of it are none.
inline constexpr double kSmallestChange = 0.01;

// What was changed at one step, and how the steps [step, end) behind it differ from [first, step).
struct ChangeEffect {
  int32_t step = 0;
  std::vector<query::Marker> markers;  // at least one
  // On each side none of warm-up and none beyond the next change: one of them may have few or none
  // where the other has many.
  int32_t first = 0;
  int32_t end = 0;
  bool may_complete = false;  // there are enough steps before it, and no change behind it
  Summary before;
  Summary after;
  Delta step_ns;  // as Compare() has them of these steps; of a side without steps all is 0
  Delta exposed_ns;
  // step_ns where steps after it have more or fewer tokens: with as many as those before.
  std::optional<Delta> token_ns;

  bool has_both() const { return before.num_steps > 0 && after.num_steps > 0; }
  bool complete() const {
    return before.num_steps >= kLeastChangeSteps && after.num_steps >= kLeastChangeSteps;
  }
  // Of the steps after it; not comparable: too few to tell.
  ComparisonVerdict step_verdict() const { return VerdictOf(step_ns); }
  std::optional<ComparisonVerdict> token_verdict() const {
    return token_ns ? std::optional(VerdictOf(*token_ns)) : std::nullopt;
  }
  ComparisonVerdict exposed_verdict() const { return VerdictOfPart(exposed_ns, step_ns.a_ns); }
};

// By step. `steps` of all ranks, of which only those count that every rank finished.
std::vector<ChangeEffect> EffectsOfChanges(const std::vector<StepBreakdown>& steps,
                                           const std::vector<query::Marker>& markers);

// Those at a step of the report's scope; what is before each may lie before the scope.
std::vector<ChangeEffect> ChangesInScope(const Report& report);

// A part of the report's text; empty without changes.
std::string PrintChanges(const Report& report);

}  // namespace shardscope::analysis
