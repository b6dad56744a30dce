// A Delta as JSON, as `compare --json` and `report --json` have it. Internal to analysis.
#pragma once

#include <nlohmann/json.hpp>

#include "trace/analysis/compare/delta.h"

namespace shardscope::analysis {

inline nlohmann::ordered_json DeltaJson(const Delta& delta) {
  return {{"a_ns", delta.a_ns},
          {"b_ns", delta.b_ns},
          {"difference_ns", delta.ns()},
          {"noise_known", delta.shift.known},
          {"shift_ns", delta.shift.estimate_ns},
          {"low_ns", delta.shift.low_ns},
          {"high_ns", delta.shift.high_ns},
          {"confidence", delta.shift.confidence}};
}

}  // namespace shardscope::analysis
