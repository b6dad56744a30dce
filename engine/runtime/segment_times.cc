#include "engine/runtime/segment_times.h"

#include <algorithm>

namespace shardscope::runtime {

void SegmentTimes::Add(int64_t step, const StepTimes& times) {
  if (step < kWarmUpSteps) return;
  for (const auto& [segment, duration_ns] : times.segment_forward_ns) {
    forwards_ns_[static_cast<size_t>(segment)].push_back(duration_ns);
  }
  ++rank_steps_;
}

std::vector<double> SegmentTimes::Costs() const {
  std::vector<double> costs;
  for (std::vector<int64_t> forwards_ns : forwards_ns_) {
    if (forwards_ns.empty()) return {};
    const auto quartile = forwards_ns.begin() + static_cast<std::ptrdiff_t>(forwards_ns.size() / 4);
    std::ranges::nth_element(forwards_ns, quartile);
    costs.push_back(static_cast<double>(*quartile));
  }
  return costs;
}

}  // namespace shardscope::runtime
