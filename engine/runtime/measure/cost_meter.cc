#include "engine/runtime/measure/cost_meter.h"

#include <utility>

namespace shardscope::runtime {

using Role = config::CostSteps::Role;

void CostMeter::Begin(int rank, const Moment& begin, bool is_recorded) {
  const Role role = steps_.Of(begin.step).role;
  const bool is_as_planned = is_recorded == (role == Role::kWith);
  begun_[static_cast<size_t>(rank)] = {begin, role != Role::kNone && is_as_planned};
}

std::optional<schema::OverheadStepRow> CostMeter::End(int rank, const Moment& end) {
  const auto [begin, is_timed] = std::exchange(begun_[static_cast<size_t>(rank)], {});
  if (!is_timed || end.step != begin.step + 1 || end.regime != begin.regime) return std::nullopt;
  const config::CostSteps::Place place = steps_.Of(begin.step);
  return schema::OverheadStepRow{.round = place.round,
                                 .rank = rank,
                                 .step = begin.step,
                                 .recorded = place.role == Role::kWith ? 1 : 0,
                                 .start_ns = begin.time_ns,
                                 .duration_ns = end.time_ns - begin.time_ns};
}

}  // namespace shardscope::runtime
