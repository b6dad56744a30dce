#include "engine/plan/schedule_test_util.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/plan/uniform_model.h"

namespace shardscope::plan {
namespace {

const std::vector<Op>& Ops(const Schedule& schedule) { return schedule.programs.front().ops; }

// A block by its position among the units (1, 2, 3), "root" is "r".
std::string ShortUnit(const Schedule& schedule, int32_t unit) {
  if (unit == kNone) return "";
  const std::string& name = schedule.units[static_cast<size_t>(unit)].name;
  return name.rfind("block", 0) == 0 ? std::to_string(unit) : name.substr(0, 1);
}

// "" for ops that the short forms leave out.
std::string ShortOp(const Schedule& schedule, const Op& op) {
  const std::string unit = ShortUnit(schedule, op.unit);
  switch (op.kind) {
    case OpKind::kAllGather:
      return "AG" + unit;
    case OpKind::kReduceScatter:
      return "RS" + unit;
    case OpKind::kAllReduce:
      return "AR" + unit;
    case OpKind::kForward:
    case OpKind::kBackward: {
      const Segment& segment = schedule.segments[static_cast<size_t>(op.segment)];
      std::string name = op.kind == OpKind::kForward ? "F" : "B";
      for (const int32_t of_segment : segment.units) name += ShortUnit(schedule, of_segment);
      return name;
    }
    default:
      return "";
  }
}

std::string Order(const Schedule& schedule, Phase phase) {
  std::string order;
  for (const Op& op : Ops(schedule)) {
    const std::string name = ShortOp(schedule, op);
    if (op.phase != phase || name.empty()) continue;
    order += (order.empty() ? "" : " ") + name;
  }
  return order;
}

std::string Describe(const Schedule& schedule, const Dependency& dependency) {
  const auto target = static_cast<size_t>(dependency.target);
  return dependency.kind == DependencyKind::kStream ? "all of " + schedule.streams[target].name
                                                    : OpName(schedule, Ops(schedule)[target]);
}

// Calls `visit(op, live bytes)` after each op's allocations.
template <typename Visit>
void WalkLedger(const Schedule& schedule, const Categories& categories, Visit visit) {
  int64_t live = 0;
  const auto bytes = [&](BufferId id) {
    const Buffer& buffer = schedule.programs.front().buffers[static_cast<size_t>(id)];
    const auto found =
        std::find(categories.begin(), categories.end(), MemoryCategoryOf(buffer.kind));
    return found != categories.end() ? buffer.bytes : 0;
  };
  for (const Op& op : Ops(schedule)) {
    for (const BufferId id : op.allocates) live += bytes(id);
    if (visit(op, live)) return;
    for (const BufferId id : op.frees) live -= bytes(id);
  }
}

}  // namespace

Policy TwoRanks(Preset preset) {
  Policy policy;
  policy.preset = preset;
  policy.mesh = MeshOf(MeshDimension::kShard, 2);
  return policy;
}

Schedule Build(const Policy& policy, bool root_unit) {
  const int stages = policy.mesh.size(MeshDimension::kPipeline);
  Result<Schedule> schedule = BuildSchedule(UniformModel(3, root_unit, stages), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *schedule : Schedule();
}

std::string CollectiveQueue(const Schedule& schedule) {
  std::string queue;
  const Op* before = nullptr;
  for (const Op& op : Ops(schedule)) {
    const bool compute = op.kind == OpKind::kForward || op.kind == OpKind::kBackward;
    const bool collective = op.communicator != kNone;
    const bool norm = op.kind == OpKind::kGradNorm;
    if (!compute && !collective && !norm) continue;
    if (before != nullptr && (before->phase != op.phase || before->micro_batch != op.micro_batch)) {
      queue += queue.empty() || queue.back() == ' ' ? "| " : " | ";
    }
    before = &op;
    if (!collective) continue;
    if (!queue.empty() && queue.back() != ' ') queue += ' ';
    queue += ShortOp(schedule, op);
  }
  return queue;
}

std::string ForwardOrder(const Schedule& schedule) { return Order(schedule, Phase::kForward); }

std::string BackwardOrder(const Schedule& schedule) { return Order(schedule, Phase::kBackward); }

OpIndex IndexOf(const Schedule& schedule, const std::string& op_name) {
  const std::vector<Op>& ops = Ops(schedule);
  const auto found = std::find_if(ops.begin(), ops.end(),
                                  [&](const Op& op) { return OpName(schedule, op) == op_name; });
  EXPECT_NE(found, ops.end()) << "no op is called '" << op_name << "'";
  return found == ops.end() ? 0 : static_cast<OpIndex>(found - ops.begin());
}

std::vector<std::string> OpsBetween(const Schedule& schedule, const std::string& first,
                                    const std::string& last) {
  std::vector<std::string> lines;
  const OpIndex end = IndexOf(schedule, last);
  for (OpIndex index = IndexOf(schedule, first); index <= end; ++index) {
    const Op& op = Ops(schedule)[static_cast<size_t>(index)];
    std::string line = OpName(schedule, op);
    std::string separator = " <- ";
    for (const Dependency& dependency : op.dependencies) {
      if (dependency.kind == DependencyKind::kHost) continue;
      line += separator + Describe(schedule, dependency);
      separator = ", ";
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> HostWaits(const Schedule& schedule) {
  std::vector<std::string> waits;
  for (const Op& op : Ops(schedule)) {
    for (const Dependency& dependency : op.dependencies) {
      if (dependency.kind != DependencyKind::kHost) continue;
      waits.push_back(OpName(schedule, op) + " <= " + Describe(schedule, dependency));
    }
  }
  return waits;
}

int64_t LiveAt(const Schedule& schedule, const std::string& op_name, const Categories& categories) {
  int64_t at_op = 0;
  WalkLedger(schedule, categories, [&](const Op& op, int64_t live) {
    at_op = live;
    return OpName(schedule, op) == op_name;
  });
  return at_op;
}

int64_t PeakUntil(const Schedule& schedule, const std::string& op_name,
                  const Categories& categories) {
  int64_t peak = 0;
  WalkLedger(schedule, categories, [&](const Op& op, int64_t live) {
    peak = std::max(peak, live);
    return OpName(schedule, op) == op_name;
  });
  return peak;
}

}  // namespace shardscope::plan
