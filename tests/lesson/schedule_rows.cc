#include "tests/lesson/schedule_rows.h"

#include <string>

#include "trace/base/check.h"

namespace shardscope::analysis {
namespace {

// As the rows of a trace have it.
std::string OwnerName(const plan::Schedule& schedule, const plan::Buffer& buffer) {
  if (buffer.segment != plan::kNone) {
    return schedule.segments[static_cast<size_t>(buffer.segment)].name;
  }
  return buffer.unit == plan::kNone ? "" : schedule.units[static_cast<size_t>(buffer.unit)].name;
}

}  // namespace

void ScheduleRows::Add(const plan::Schedule& schedule) {
  SHARDSCOPE_CHECK(schedule.programs.size() == 1);
  std::vector<query::PlanOpId> ids;
  for (size_t op = 0; op < schedule.programs.front().ops.size(); ++op) {
    ids.push_back(AddOp(schedule, static_cast<plan::OpIndex>(op), ids));
  }
  plan_ops_[&schedule] = std::move(ids);
}

query::PlanOpId ScheduleRows::AddOp(const plan::Schedule& schedule, plan::OpIndex index,
                                    const std::vector<query::PlanOpId>& ids) {
  const plan::Program& program = schedule.programs.front();
  const plan::Op& op = program.ops[static_cast<size_t>(index)];
  std::vector<query::PlanOpId> predecessors;
  std::vector<query::PlanOpId> host_predecessors;
  for (const plan::Dependency& dependency : op.dependencies) {
    const plan::OpIndex before = plan::ResolveDependency(program, index, dependency);
    if (before == plan::kNone) continue;
    const query::PlanOpId id = ids[static_cast<size_t>(before)];
    predecessors.push_back(id);
    if (dependency.kind == plan::DependencyKind::kHost) host_predecessors.push_back(id);
  }
  const auto unit =
      op.unit == plan::kNone ? std::string() : schedule.units[static_cast<size_t>(op.unit)].name;
  const auto segment = op.segment == plan::kNone
                           ? std::string()
                           : schedule.segments[static_cast<size_t>(op.segment)].name;
  const query::PlanOpId id =
      test_.Plan(std::string(plan::Name(op.kind)), std::string(plan::Name(op.phase)), unit, segment,
                 predecessors);
  query::PlanOp& row = test_.op(id);
  row.name = plan::OpName(schedule, op);
  row.micro_batch = op.micro_batch;
  // Tracks of a TestSnapshot are named after roles.
  row.stream = plan::Name(schedule.streams[static_cast<size_t>(op.stream)].role);
  row.host_predecessors = std::move(host_predecessors);
  if (op.communicator != plan::kNone) {
    row.communicator = schedule.communicators[static_cast<size_t>(op.communicator)].name;
    row.dtype = plan::Name(op.dtype);
  }
  row.payload_bytes = op.payload_bytes;
  row.wire_bytes = op.wire_bytes;
  return id;
}

query::PlanOpId ScheduleRows::PlanOp(const executor::OpContext& context,
                                     plan::OpIndex index) const {
  return index == plan::kNone ? query::PlanOpId::None()
                              : plan_ops_.at(context.schedule)[static_cast<size_t>(index)];
}

void ScheduleRows::OnOpEnd(const executor::OpContext& context, const executor::OpTimes& times) {
  query::OpRun& row = test_.Run(context.rank, static_cast<int32_t>(context.step),
                                PlanOp(context, context.index), times.started_ns, times.ended_ns);
  row.issued_ns = times.issued_ns;
  row.ready_ns = times.ready_ns;
  row.slot_wait_ns = times.slot_wait_ns;
  row.blocking_plan_op = PlanOp(context, times.blocking_op);
  row.blocking_kind = times.blocking_kind;
}

void ScheduleRows::OnMemory(const executor::OpContext& context, plan::BufferId buffer,
                            int64_t bytes, int64_t issued_ns, int64_t executed_ns) {
  const plan::Buffer& of = context.buffer(buffer);
  query::MemoryEvent& row = test_.Memory(context.rank, plan::MemoryCategoryOf(of.kind), executed_ns,
                                         bytes, OwnerName(*context.schedule, of));
  row.issued_ns = issued_ns;
  row.is_of_step = true;
}

void ScheduleRows::OnOtherMemory(const executor::OpContext& context,
                                 const executor::MemoryChange& change) {
  query::MemoryEvent& row =
      test_.Memory(context.rank, change.category, change.executed_ns, change.bytes);
  row.issued_ns = context.issued_ns;
  row.is_of_step = true;
}

}  // namespace shardscope::analysis
