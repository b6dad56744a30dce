#include "trace/analysis/traffic.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace shardscope::analysis {
namespace {

std::set<query::ScheduleId> SchedulesThatRan(const query::Snapshot& snapshot) {
  std::set<query::ScheduleId> ids;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& step : rows.steps) ids.insert(step.schedule);
  }
  return ids;
}

}  // namespace

std::vector<Traffic> TrafficOf(const query::Snapshot& snapshot) {
  const std::set<query::ScheduleId> ran = SchedulesThatRan(snapshot);
  std::map<std::tuple<query::ScheduleId, std::string, query::OpClass, int32_t>, Traffic> all;
  for (const auto& [id, op] : snapshot.plan_ops) {
    if (op.category != query::Category::kCommunication || !ran.contains(op.schedule)) continue;
    Traffic& traffic = all[{op.schedule, op.communicator, op.op_class, op.program}];
    traffic.schedule = op.schedule;
    traffic.communicator = op.communicator;
    traffic.kind = op.op_class;
    ++traffic.calls;
    traffic.wire_bytes += op.wire_bytes;
  }
  std::vector<Traffic> result;
  for (auto& [key, traffic] : all) {
    const auto schedule = snapshot.schedules.find(traffic.schedule);
    if (schedule != snapshot.schedules.end()) traffic.schedule_name = schedule->second.name;
    const bool is_same = !result.empty() && result.back().schedule == traffic.schedule &&
                         result.back().communicator == traffic.communicator &&
                         result.back().kind == traffic.kind;
    if (!is_same) {
      result.push_back(std::move(traffic));
    } else if (traffic.wire_bytes > result.back().wire_bytes) {
      result.back() = std::move(traffic);
    }
  }
  return result;
}

}  // namespace shardscope::analysis
