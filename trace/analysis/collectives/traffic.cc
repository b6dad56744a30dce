#include "trace/analysis/collectives/traffic.h"

#include <algorithm>
#include <utility>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/report/schedule_text.h"

namespace shardscope::analysis {
namespace {

using CallsOfProgram = std::map<std::pair<std::string, query::OpClass>, Traffic>;

void AddCall(const query::PlanOp& op, CallsOfProgram* calls) {
  // Runs that an earlier version imported say of a receive, too, how much comes.
  const bool sends = op.category == query::Category::kCommunication &&
                     op.kind != Name(words::OpKind::kReceive) && op.wire_bytes > 0;
  if (!sends) return;
  Traffic& traffic = (*calls)[{op.communicator, op.op_class}];
  traffic.communicator = op.communicator;
  traffic.kind = op.op_class;
  ++traffic.calls;
  AddCapped(op.wire_bytes, &traffic.wire_bytes);
}

std::vector<Traffic> RowsOf(const CallsOfProgram& calls) {
  std::vector<Traffic> rows;
  for (const auto& [key, traffic] : calls) rows.push_back(traffic);
  return rows;
}

// The first rank that runs the program. Programs of imported runs are a rank's each.
int32_t RankOf(int32_t program, const std::vector<int32_t>& program_of_rank) {
  const auto found = std::ranges::find(program_of_rank, program);
  return found == program_of_rank.end() ? program
                                        : static_cast<int32_t>(found - program_of_rank.begin());
}

RankTraffic LargestOf(const std::map<int32_t, CallsOfProgram>& programs,
                      const std::vector<int32_t>& program_of_rank) {
  RankTraffic largest;
  int64_t largest_bytes = -1;
  int32_t largest_rank = 0;
  bool differ = false;
  for (const auto& [program, calls] : programs) {
    std::vector<Traffic> rows = RowsOf(calls);
    int64_t bytes = 0;
    for (const Traffic& row : rows) AddCapped(row.wire_bytes, &bytes);
    const int32_t rank = RankOf(program, program_of_rank);
    differ = differ || (largest_bytes >= 0 && rows != largest.rows);
    const bool sends_more =
        bytes > largest_bytes || (bytes == largest_bytes && rank < largest_rank);
    if (!sends_more) continue;
    largest_bytes = bytes;
    largest_rank = rank;
    largest.rows = std::move(rows);
  }
  if (differ) largest.rank = largest_rank;
  return largest;
}

}  // namespace

std::map<query::ScheduleId, RankTraffic> TrafficOf(const query::Snapshot& snapshot) {
  std::map<query::ScheduleId, std::map<int32_t, CallsOfProgram>> schedules;
  for (const auto& [id, op] : snapshot.plan_ops) {
    AddCall(op, &schedules[op.schedule][op.program]);  // a program that sends nothing is one, too
  }
  std::map<query::ScheduleId, RankTraffic> result;
  for (const auto& [id, programs] : schedules) {
    const auto schedule = snapshot.schedules.find(id);
    RankTraffic traffic = LargestOf(programs, schedule == snapshot.schedules.end()
                                                  ? std::vector<int32_t>()
                                                  : ProgramsOfRanks(schedule->second.text));
    if (!traffic.rows.empty()) result[id] = std::move(traffic);
  }
  return result;
}

}  // namespace shardscope::analysis
