// Steps as stacked bars. Logic only; no ImGui.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/analysis/steps/breakdown.h"

namespace shardscope::panels {

// One step of one rank, or the medians of a few steps when there are more than bars.
struct OverlapBar {
  int32_t first_step = 0;
  int32_t last_step = 0;
  double compute_ns = 0;
  double exposed_ns = 0;  // communication
  double exposed_copy_ns = 0;
  double idle_ns = 0;
  double overlap_ratio = 0;  // sum of overlap / sum of communication; 0 without communication
  bool has_communication = false;
  double total_ns() const { return compute_ns + exposed_ns + exposed_copy_ns + idle_ns; }
};

// At most `max_bars` bars of `rank`, warm-up left out if there is more. Steps on both sides of
// `change_step` (-1: none) never share a bar.
std::vector<OverlapBar> MakeBars(const std::vector<analysis::StepBreakdown>& steps, int32_t rank,
                                 int max_bars, int32_t change_step);

}  // namespace shardscope::panels
