#include "trace/analysis/traffic.h"

#include <tuple>
#include <utility>

namespace shardscope::analysis {

std::map<query::ScheduleId, std::vector<Traffic>> TrafficOf(const query::Snapshot& snapshot) {
  std::map<std::tuple<query::ScheduleId, std::string, query::OpClass, int32_t>, Traffic> all;
  for (const auto& [id, op] : snapshot.plan_ops) {
    if (op.category != query::Category::kCommunication) continue;
    Traffic& traffic = all[{op.schedule, op.communicator, op.op_class, op.program}];
    traffic.communicator = op.communicator;
    traffic.kind = op.op_class;
    ++traffic.calls;
    traffic.wire_bytes += op.wire_bytes;
  }
  std::map<query::ScheduleId, std::vector<Traffic>> result;
  for (auto& [key, traffic] : all) {
    std::vector<Traffic>& of_schedule = result[std::get<query::ScheduleId>(key)];
    const bool is_same = !of_schedule.empty() &&
                         of_schedule.back().communicator == traffic.communicator &&
                         of_schedule.back().kind == traffic.kind;
    if (!is_same) {
      of_schedule.push_back(std::move(traffic));
    } else if (traffic.wire_bytes > of_schedule.back().wire_bytes) {
      of_schedule.back() = std::move(traffic);
    }
  }
  return result;
}

}  // namespace shardscope::analysis
