#include "trace/analysis/snapshot_test_util.h"

#include <algorithm>

#include "trace/base/check.h"

namespace shardscope::analysis {
namespace {

using query::Category;
using query::TrackRole;

// The stream on which FSDP2 runs an op.
TrackRole RoleOf(words::OpKind kind) {
  switch (kind) {
    case words::OpKind::kControl:
    case words::OpKind::kLoadBatch:
      return TrackRole::kHost;
    case words::OpKind::kCast:
      return TrackRole::kCopy;
    case words::OpKind::kAllGather:
      return TrackRole::kAllGather;
    case words::OpKind::kAccumulate:
    case words::OpKind::kReduceScatter:
      return TrackRole::kReduceScatter;
    case words::OpKind::kAllReduce:
      return TrackRole::kAllReduce;
    default:
      return TrackRole::kCompute;
  }
}

// Every rank has a track of each role, named after it.
query::TrackId TrackOf(int32_t rank, TrackRole role) {
  return query::TrackId(int64_t{rank} * words::kNumTrackRoles + static_cast<int64_t>(role) + 1);
}

std::string OpName(const query::PlanOp& op) {
  std::string name;
  if (op.phase == "forward") name += "F ";
  if (op.phase == "backward") name += "B ";
  if (op.phase == "optimizer") name += "O ";
  if (op.micro_batch >= 0) name += "m" + std::to_string(op.micro_batch) + " ";
  if (!op.segment.empty()) name += op.segment + " ";
  if (!op.unit.empty()) name += op.unit + " ";
  return name + op.kind;
}

template <typename Row>
void AppendNew(const std::vector<Row>& from, query::RowList<Row>* to) {
  while (to->size() < from.size()) to->Append(from[to->size()]);
}

}  // namespace

TestSnapshot::TestSnapshot(int num_ranks) : rows_(static_cast<size_t>(num_ranks)) {
  snapshot_.name = "test";
  snapshot_.state = query::TraceState::kFinished;
  snapshot_.communicators = {"shard"};
  const query::ScheduleId schedule(1);
  snapshot_.schedules[schedule] = {.id = schedule, .name = "test"};
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    snapshot_.ranks.push_back({.rank = rank});
    for (int i = 0; i < words::kNumTrackRoles; ++i) {
      const auto role = static_cast<TrackRole>(i);
      snapshot_.tracks.push_back({.id = TrackOf(rank, role),
                                  .rank = rank,
                                  .name = std::string(Name(role)),
                                  .role = role,
                                  .position = i});
    }
  }
}

void TestSnapshot::NextSchedule(const std::string& name) {
  const query::ScheduleId id(snapshot_.schedules.rbegin()->first.value() + 1);
  snapshot_.schedules[id] = {.id = id, .name = name};
  next_op_ = 0;
}

query::PlanOpId TestSnapshot::Plan(const std::string& kind, const std::string& phase,
                                   const std::string& unit, const std::string& segment,
                                   const std::vector<query::PlanOpId>& predecessors) {
  const auto known = words::ParseOpKind(kind);
  SHARDSCOPE_CHECK(known.has_value());
  query::PlanOp op;
  op.op = next_op_++;
  op.id = query::PlanOpId(static_cast<int64_t>(snapshot_.plan_ops.size()) + 1);
  op.schedule = snapshot_.schedules.rbegin()->first;
  op.kind = kind;
  op.op_class = words::TraitsOf(*known).op_class;
  op.category = TraitsOf(op.op_class).category;
  op.phase = phase;
  op.micro_batch = phase == "optimizer" || phase.empty() ? -1 : 0;
  op.unit = unit;
  op.segment = segment;
  op.stream = Name(RoleOf(*known));
  if (op.category == Category::kCommunication) {
    op.communicator = "shard";
    op.dtype = "fp32";
  }
  op.predecessors = predecessors;
  op.name = OpName(op);
  for (const query::PlanOpId predecessor : predecessors) {
    snapshot_.plan_ops.at(predecessor).successors.push_back(op.id);
  }
  const query::PlanOpId id = op.id;
  snapshot_.plan_ops[id] = std::move(op);
  return id;
}

query::OpRun& TestSnapshot::Run(int32_t rank, int32_t step, query::PlanOpId plan_op,
                                int64_t started_ns, int64_t ended_ns) {
  const query::PlanOp& op = snapshot_.plan_ops.at(plan_op);
  query::OpRun run;
  run.id = query::OpRunId(next_op_run_++);
  run.plan_op = plan_op;
  run.rank = rank;
  run.step = step;
  run.track = TrackOf(rank, words::ParseTrackRole(op.stream).value());
  run.issued_ns = run.ready_ns = run.started_ns = started_ns;
  run.ended_ns = ended_ns;
  if (op.category == Category::kCommunication) {
    query::Collective row;
    row.op_run = run.id;
    row.rank = rank;
    row.step = step;
    row.sequence = rows(rank).next_sequence++;
    row.kind = op.op_class;
    row.payload_bytes = op.payload_bytes;
    row.wire_bytes = op.wire_bytes;
    row.group_size = static_cast<int32_t>(rows_.size());
    row.truth = snapshot_.truth;
    rows(rank).collectives.push_back(row);
  } else {
    run.cpu_ns = ended_ns - started_ns;
  }
  rows(rank).op_runs.push_back(run);
  return rows(rank).op_runs.back();
}

query::Step& TestSnapshot::Step(int32_t rank, int32_t step, int64_t start_ns, int64_t end_ns) {
  query::Step row;
  row.rank = rank;
  row.step = step;
  row.schedule = snapshot_.schedules.rbegin()->first;
  row.start_ns = start_ns;
  row.end_ns = end_ns;
  rows(rank).steps.push_back(row);
  return rows(rank).steps.back();
}

query::MemoryEvent& TestSnapshot::Memory(int32_t rank, query::MemoryCategory category,
                                         int64_t time_ns, int64_t bytes, const std::string& unit) {
  std::vector<std::string>& units = snapshot_.memory_units;
  const auto at = std::find(units.begin(), units.end(), unit);
  query::MemoryEvent event;
  event.unit = static_cast<uint64_t>(at - units.begin());
  if (at == units.end()) units.push_back(unit);
  event.category = category;
  event.issued_ns = event.executed_ns = time_ns;
  event.bytes = bytes;
  rows(rank).memory.push_back(event);
  return rows(rank).memory.back();
}

query::SnapshotPtr TestSnapshot::Build() {
  ++snapshot_.generation;
  bool any = false;
  const auto extend = [&](int64_t from_ns, int64_t to_ns) {
    snapshot_.start_ns = any ? std::min(snapshot_.start_ns, from_ns) : from_ns;
    snapshot_.end_ns = any ? std::max(snapshot_.end_ns, to_ns) : to_ns;
    any = true;
  };
  for (query::RankRows& to : snapshot_.ranks) {
    const Rows& from = rows(to.rank);
    AppendNew(from.op_runs, &to.op_runs);
    AppendNew(from.steps, &to.steps);
    AppendNew(from.collectives, &to.collectives);
    AppendNew(from.memory, &to.memory);
    for (const query::OpRun& run : from.op_runs) extend(run.issued_ns, run.ended_ns);
    for (const query::Step& step : from.steps) extend(step.start_ns, step.end_ns);
    for (const query::MemoryEvent& event : from.memory) {
      extend(event.issued_ns, event.executed_ns);
    }
  }
  return std::make_shared<const query::Snapshot>(snapshot_);
}

}  // namespace shardscope::analysis
