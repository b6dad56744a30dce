#include "engine/runtime/auto_bandwidth.h"

#include <algorithm>

#include "trace/base/byte_rate.h"

namespace shardscope::runtime {

AutoBandwidth::AutoBandwidth(const plan::Schedule& schedule, Link link) : link_(link) {
  // Blocks are the units that hold an attention segment.
  is_block_.resize(schedule.units.size());
  for (const plan::Segment& segment : schedule.segments) {
    if (!segment.name.ends_with(".attention")) continue;
    for (const int32_t unit : segment.units) is_block_[static_cast<size_t>(unit)] = true;
  }
  for (const plan::Op& op : schedule.programs.front().ops) {
    if (op.kind == plan::OpKind::kAllGather && op.unit != plan::kNone &&
        is_block_[static_cast<size_t>(op.unit)]) {
      wire_bytes_ = std::max(wire_bytes_, op.wire_bytes);
    }
  }
}

void AutoBandwidth::Add(int64_t step, const StepTimes& times) {
  if (!steps_.Add(step)) return;
  for (const auto& [unit, duration_ns] : times.unit_forward_ns) {
    if (is_block_[static_cast<size_t>(unit)]) forwards_ns_.push_back(duration_ns);
  }
}

std::optional<double> AutoBandwidth::BytesPerSecond() const {
  const double transfer_ns =
      link_.share * static_cast<double>(forward_ns()) - static_cast<double>(link_.latency_ns);
  if (wire_bytes_ == 0 || transfer_ns <= 0) return std::nullopt;
  return shardscope::BytesPerSecond(wire_bytes_, transfer_ns);
}

}  // namespace shardscope::runtime
