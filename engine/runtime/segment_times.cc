#include "engine/runtime/segment_times.h"

namespace shardscope::runtime {

void SegmentTimes::Add(int64_t step, const StepTimes& times) {
  if (!steps_.Add(step)) return;
  for (const auto& [segment, duration_ns] : times.segment_forward_ns) {
    forwards_ns_[static_cast<size_t>(segment)].push_back(duration_ns);
  }
}

std::vector<double> SegmentTimes::Costs() const {
  std::vector<double> costs;
  for (const std::vector<int64_t>& forwards_ns : forwards_ns_) {
    if (forwards_ns.empty()) return {};
    costs.push_back(static_cast<double>(UndisturbedNs(forwards_ns)));
  }
  return costs;
}

}  // namespace shardscope::runtime
