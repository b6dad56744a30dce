#include "engine/executor/step_plan.h"

#include <algorithm>
#include <string>

namespace shardscope::executor {
namespace {

using plan::Dependency;
using plan::DependencyKind;
using plan::Op;
using plan::OpIndex;

Status CheckOp(const plan::Schedule& schedule, const Op& op, OpIndex index) {
  const auto fail = [&](const std::string& what) {
    return Status::Error("op " + std::to_string(index) + " '" + plan::OpName(schedule, op) +
                         "' of schedule '" + schedule.name + "' " + what +
                         "; check it with `shardscope plan --check`");
  };
  const auto num_streams = static_cast<int32_t>(schedule.streams.size());
  const auto is_stream = [&](int32_t stream) { return stream >= 0 && stream < num_streams; };
  if (!is_stream(op.stream)) return fail("is on a stream that does not exist");
  for (const Dependency& dependency : op.dependencies) {
    if (dependency.kind == DependencyKind::kStream) {
      if (!is_stream(dependency.target)) return fail("waits for a stream that does not exist");
    } else if (dependency.target < 0 || dependency.target >= index) {
      return fail("waits for op " + std::to_string(dependency.target) +
                  ", which is not issued before it");
    }
  }
  return Status::Ok();
}

// Why `index` waits for `predecessor`: an explicit dependency is named before an implied one.
BlockingKind KindOfWait(const plan::Program& program, const Op& op, OpIndex predecessor) {
  const Op& before = program.ops[static_cast<size_t>(predecessor)];
  for (const Dependency& dependency : op.dependencies) {
    if (dependency.kind == DependencyKind::kEvent && dependency.target == predecessor) {
      return BlockingKind::kEvent;
    }
  }
  for (const Dependency& dependency : op.dependencies) {
    if (dependency.kind == DependencyKind::kStream && dependency.target == before.stream) {
      return BlockingKind::kStream;
    }
  }
  return before.stream == op.stream ? BlockingKind::kStreamOrder : BlockingKind::kCommunicatorOrder;
}

// Whatever uses a core for its work: all of the compute streams, copies included. Collectives never
// do: one that held a slot while it waited for another rank could keep that rank from arriving.
bool TakesSlot(const plan::Schedule& schedule, const Op& op) {
  switch (TraitsOf(plan::CategoryOf(op.kind)).share) {
    case words::OpShare::kCompute:
      return true;
    case words::OpShare::kCopy:
      return schedule.streams[static_cast<size_t>(op.stream)].role == plan::StreamRole::kCompute;
    case words::OpShare::kCommunication:
    case words::OpShare::kNone:
      return false;
  }
  return false;
}

bool DoesWork(const Op& op) {
  return plan::TraitsOf(op.kind).op_class != plan::OpClass::kBookkeeping;
}

}  // namespace

Result<StepPlan> MakeStepPlan(const plan::Schedule& schedule, const plan::Program& program) {
  for (size_t index = 0; index < program.ops.size(); ++index) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckOp(schedule, program.ops[index], static_cast<OpIndex>(index)));
  }
  StepPlan step_plan;
  const std::vector<std::vector<OpIndex>> predecessors = plan::AllPredecessors(program);
  for (size_t index = 0; index < program.ops.size(); ++index) {
    const Op& op = program.ops[index];
    std::vector<Wait> waits;
    for (const OpIndex predecessor : predecessors[index]) {
      waits.push_back({predecessor, KindOfWait(program, op, predecessor)});
    }
    step_plan.waits.push_back(std::move(waits));
    step_plan.takes_slot.push_back(DoesWork(op) && TakesSlot(schedule, op));
  }
  return step_plan;
}

}  // namespace shardscope::executor
