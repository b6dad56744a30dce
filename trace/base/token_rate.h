// Tokens a second: one rule for the progress of a run, its report and its exports.
#pragma once

namespace shardscope {

// 0 for a step that took no time.
constexpr double TokensPerSecond(double tokens, double step_ns) {
  return step_ns > 0 ? tokens / (step_ns / 1e9) : 0;
}

}  // namespace shardscope
