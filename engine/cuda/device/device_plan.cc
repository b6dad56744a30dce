#include "engine/cuda/device/device_plan.h"

#include <utility>

#include "engine/cuda/device/reuse.h"

namespace shardscope::cuda {
namespace {

using executor::BlockingKind;
using plan::Op;
using plan::OpIndex;
using plan::Program;

bool WaitsForStream(const Op& op, plan::StreamIndex stream) {
  for (const plan::Dependency& dependency : op.dependencies) {
    if (dependency.kind == plan::DependencyKind::kStream && dependency.target == stream) {
      return true;
    }
  }
  return false;
}

class Planner {
 public:
  Planner(const plan::Schedule& schedule, const Program& program, DevicePlan* result)
      : program_(program),
        plan_(*result),
        last_host_op_seen_(schedule.streams.size(), plan::kNone) {
    plan_.ops.resize(program.ops.size());
  }

  void Run() {
    for (OpIndex index = 0; index < static_cast<OpIndex>(program_.ops.size()); ++index) {
      PlanOne(index);
    }
  }

 private:
  const Op& OpAt(OpIndex index) const { return program_.ops[static_cast<size_t>(index)]; }
  OpPlan& At(OpIndex index) { return plan_.ops[static_cast<size_t>(index)]; }

  void PlanOne(OpIndex index) {
    const Op& op = OpAt(index);
    for (const plan::Dependency& dependency : op.dependencies) {
      if (dependency.kind != plan::DependencyKind::kHost) continue;
      At(index).host_waits.push_back(dependency.target);
      At(dependency.target).needs_event = true;
    }
    for (const executor::Wait& wait : plan_.step.waits[static_cast<size_t>(index)]) {
      PlanWait(index, wait);
    }
    if (op.stream == 0) {
      last_host_op_ = index;
      return;
    }
    OpIndex& seen = last_host_op_seen_[static_cast<size_t>(op.stream)];
    if (seen == last_host_op_) return;
    seen = last_host_op_;
    At(index).host_op_before = last_host_op_;
    At(last_host_op_).needs_event = true;
  }

  void PlanWait(OpIndex index, const executor::Wait& wait) {
    const Op& op = OpAt(index);
    const plan::StreamIndex other = OpAt(wait.op).stream;
    if (other == op.stream) return;  // the stream itself keeps that order
    if (op.stream == 0) {
      At(index).host_waits.push_back(wait.op);
      At(wait.op).needs_event = true;
    } else if (wait.kind == BlockingKind::kStream && WaitsForStream(op, other)) {
      At(index).stream_waits.push_back(other);
    } else {
      At(index).event_waits.push_back(wait.op);
      At(wait.op).needs_event = true;
    }
  }

  const Program& program_;
  DevicePlan& plan_;
  // Note: host ops
  // In a Schedule everything issued after a host op comes after it. The host keeps that order for
  // its own work, but what a host op puts on the GPU (the copy of a batch) is done later: the first
  // op of every stream after it waits for the event behind it.
  OpIndex last_host_op_ = plan::kNone;
  std::vector<OpIndex> last_host_op_seen_;  // by stream
};

}  // namespace

Result<DevicePlan> MakeDevicePlan(const plan::Schedule& schedule, const Program& program,
                                  bool free_late) {
  Result<executor::StepPlan> step = executor::MakeStepPlan(schedule, program);
  if (!step.ok()) return step.status();
  DevicePlan result;
  result.step = std::move(step).value();
  Planner(schedule, program, &result).Run();
  if (free_late) {
    std::vector<std::vector<plan::BufferId>> frees = FreesByOp(schedule, program);
    result.frees_at_end = std::move(frees.back());
    for (size_t op = 0; op < program.ops.size(); ++op) result.ops[op].frees = std::move(frees[op]);
  }
  return result;
}

}  // namespace shardscope::cuda
