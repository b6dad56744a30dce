#include "trace/analysis/traffic.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace shardscope::analysis {
namespace {

// "shard/3" -> "shard".
std::string WithoutGroup(const std::string& communicator) {
  return communicator.substr(0, communicator.rfind('/'));
}

}  // namespace

std::vector<Traffic> TrafficOf(const query::Snapshot& snapshot) {
  std::map<std::tuple<query::ScheduleId, std::string, query::OpClass>, Traffic> all;
  std::map<query::ScheduleId, std::set<std::pair<int32_t, int32_t>>> rank_steps;
  for (const query::RankRows& rows : snapshot.ranks) {
    std::map<int32_t, query::ScheduleId> schedule_of;
    for (const query::Step& step : rows.steps) schedule_of[step.step] = step.schedule;
    for (const query::Collective& row : rows.collectives) {
      const auto schedule = schedule_of.find(row.step);
      if (schedule == schedule_of.end()) continue;  // the step has not ended
      const std::string communicator =
          WithoutGroup(snapshot.communicators[static_cast<size_t>(row.communicator)]);
      Traffic& traffic = all[{schedule->second, communicator, row.kind}];
      traffic.schedule = schedule->second;
      traffic.communicator = communicator;
      traffic.kind = row.kind;
      traffic.calls += 1;
      traffic.wire_bytes += static_cast<double>(row.wire_bytes);
      rank_steps[schedule->second].emplace(row.rank, row.step);
    }
  }
  std::vector<Traffic> result;
  for (auto& [key, traffic] : all) {
    const auto count = static_cast<double>(rank_steps[traffic.schedule].size());
    const auto schedule = snapshot.schedules.find(traffic.schedule);
    if (schedule != snapshot.schedules.end()) traffic.schedule_name = schedule->second.name;
    traffic.calls /= count;
    traffic.wire_bytes /= count;
    result.push_back(std::move(traffic));
  }
  return result;
}

}  // namespace shardscope::analysis
