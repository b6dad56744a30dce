// What `compare --fail-if-slower` says of a comparison. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "trace/analysis/compare/comparison.h"

namespace shardscope::analysis {

enum class GateOutcome : uint8_t { kPasses, kFails, kUnknown };

struct Gate {
  GateOutcome outcome = GateOutcome::kUnknown;
  // Steps of A and B differ in their tokens: not the time of a step is judged but that of a token.
  bool is_per_token = false;
  ComparisonVerdict verdict = ComparisonVerdict::kNotComparable;  // of B, by that time
  double slower = 0;     // of that time, as Comparison::slower()
  std::string sentence;  // what was judged by what, and how it came out
};

// `most`: the share by which B may be slower.
//
// Per token, the steps of B take as long as they would with as many tokens as those of A. Tokens a
// step are then a constant of a side: where they vary from step to step, that is noise of its
// times.
Gate GateOf(const Comparison& comparison, double most);

// With the members of Gate as "gate"; `most` as above.
std::string PrintComparisonJson(const Comparison& comparison, double most);

}  // namespace shardscope::analysis
