#include "engine/plan/passes.h"

#include <algorithm>
#include <deque>
#include <list>
#include <utility>
#include <vector>

#include "trace/base/check.h"

namespace shardscope::plan {
namespace {

// One unit in one forward or backward of one micro-batch. Indices are positions in the program.
struct UnitPass {
  int32_t unit = kNone;
  OpIndex first_compute = kNone;  // its own gather, and compute's wait for it, stand before
  OpIndex reshard = kNone;        // kNone if it keeps its parameters
  std::vector<OpIndex> gather;    // cast or copy-in, all-gather; empty if it has its parameters
};

// All units of one forward or backward, in the order of their first compute op.
using PhasePass = std::vector<UnitPass>;

// Moves ops of a program while dependencies keep naming the right op: an op is named by its
// position before the edit, and Apply() renumbers once, at the end.
class ProgramEditor {
 public:
  // `program` must outlive the editor; it is consistent again after Apply().
  explicit ProgramEditor(Program& program) : program_(program) {
    for (OpIndex id = 0; id < static_cast<OpIndex>(program.ops.size()); ++id) {
      place_.push_back(order_.insert(order_.end(), id));
    }
  }

  // Moves the ops of `group`, in that order, to just before `anchor`, which is not one of them.
  void MoveBefore(const std::vector<OpIndex>& group, OpIndex anchor) {
    const auto target = place_[static_cast<size_t>(anchor)];
    for (const OpIndex id : group) {
      SHARDSCOPE_CHECK(id != anchor);
      order_.splice(target, order_, place_[static_cast<size_t>(id)]);
    }
  }

  // Writes order and dependencies back. Moving an op before what it waits for is a programming
  // error. Stream waits keep naming a stream: what they wait for follows from the new position.
  void Apply() {
    std::vector<OpIndex> index_of(program_.ops.size());
    OpIndex next = 0;
    for (const OpIndex id : order_) index_of[static_cast<size_t>(id)] = next++;

    std::vector<Op> ops;
    ops.reserve(program_.ops.size());
    for (const OpIndex id : order_) {
      Op op = std::move(program_.ops[static_cast<size_t>(id)]);
      for (Dependency& dependency : op.dependencies) {
        if (dependency.kind == DependencyKind::kStream) continue;
        dependency.target = index_of[static_cast<size_t>(dependency.target)];
        SHARDSCOPE_CHECK(dependency.target < static_cast<OpIndex>(ops.size()));
      }
      ops.push_back(std::move(op));
    }
    program_.ops = std::move(ops);
  }

 private:
  Program& program_;
  std::list<OpIndex> order_;
  std::vector<std::list<OpIndex>::iterator> place_;  // by position before the edit
};

// Whether the op is part of what gathers a unit's parameters (and may thus be issued early).
bool IsGatherOp(const Schedule& schedule, const Op& op) {
  if (op.unit == kNone) return false;
  if (op.kind == OpKind::kAllGather || op.kind == OpKind::kCopyToDevice) return true;
  // Gradient casts and copies run on other streams.
  const bool copies = op.kind == OpKind::kCast || op.kind == OpKind::kCopyIn;
  return copies && schedule.streams[static_cast<size_t>(op.stream)].role == StreamRole::kCopy;
}

UnitPass& FindUnit(PhasePass& phase, int32_t unit) {
  const auto found = std::ranges::find(phase, unit, &UnitPass::unit);
  if (found != phase.end()) return *found;
  phase.emplace_back().unit = unit;
  return phase.back();
}

// One entry a micro-batch, in order.
std::vector<PhasePass> FindPhases(const Schedule& schedule, const Program& program, Phase phase) {
  std::vector<PhasePass> phases(static_cast<size_t>(schedule.num_micro_batches));
  for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
    const Op& op = program.ops[static_cast<size_t>(index)];
    if (op.phase != phase || op.micro_batch == kNone) continue;
    PhasePass& units = phases[static_cast<size_t>(op.micro_batch)];
    if (TraitsOf(op.kind).runs_segment) {
      for (const int32_t unit : schedule.segments[static_cast<size_t>(op.segment)].units) {
        UnitPass& pass = FindUnit(units, unit);
        if (pass.first_compute == kNone) pass.first_compute = index;
      }
    } else if (op.kind == OpKind::kReshard) {
      FindUnit(units, op.unit).reshard = index;
    } else if (IsGatherOp(schedule, op)) {
      FindUnit(units, op.unit).gather.push_back(index);
    }
  }
  for (PhasePass& units : phases) {
    // A unit without backward may be freed there all the same.
    std::erase_if(units, [](const UnitPass& pass) { return pass.first_compute == kNone; });
    std::ranges::sort(units, {}, &UnitPass::first_compute);
  }
  return phases;
}

// Where a unit issues its prefetches, and of how many units that follow it, unless it has a list.
struct PrefetchRule {
  Phase phase = Phase::kForward;
  OpIndex UnitPass::*point = &UnitPass::first_compute;
  int depth = 0;
  const std::vector<PrefetchList>* lists = nullptr;
};

// Those whose gathers the unit at `at` issues, as positions in `units`.
std::vector<size_t> UnitsToGather(const Schedule& schedule, const PrefetchRule& rule,
                                  const PhasePass& units, size_t at) {
  const auto name = [&](const UnitPass& pass) -> const std::string& {
    return schedule.units[static_cast<size_t>(pass.unit)].name;
  };
  std::vector<size_t> gathers;
  const auto list = std::ranges::find(*rule.lists, name(units[at]), &PrefetchList::unit);
  if (list == rule.lists->end()) {
    const size_t end = std::min(units.size(), at + 1 + static_cast<size_t>(rule.depth));
    for (size_t next = at + 1; next < end; ++next) gathers.push_back(next);
    return gathers;
  }
  for (const std::string& gather : list->gathers) {
    const auto found = std::ranges::find(units, gather, name);
    if (found != units.end()) gathers.push_back(static_cast<size_t>(found - units.begin()));
  }
  return gathers;
}

void Prefetch(const PrefetchRule& rule, Schedule* schedule) {
  for (Program& program : schedule->programs) {
    ProgramEditor editor(program);
    for (PhasePass& units : FindPhases(*schedule, program, rule.phase)) {
      for (size_t at = 0; at < units.size(); ++at) {
        const std::string& name = schedule->units[static_cast<size_t>(units[at].unit)].name;
        const bool has_list = std::ranges::count(*rule.lists, name, &PrefetchList::unit) > 0;
        const auto point = has_list ? &UnitPass::first_compute : rule.point;
        if (units[at].*point == kNone) continue;
        // A reshard itself stays before what it makes room for.
        OpIndex anchor = units[at].*point + (point == &UnitPass::reshard ? 1 : 0);
        for (const size_t next : UnitsToGather(*schedule, rule, units, at)) {
          std::vector<OpIndex>& gather = units[next].gather;
          // After the reshard of a root that spans the others they were gathered long before.
          if (gather.empty() || gather.front() < anchor) continue;
          if (gather.front() == anchor) {
            // There already: no reduction stands between. The others follow it.
            anchor = gather.back() + 1;
            gather.clear();
            continue;
          }
          editor.MoveBefore(gather, anchor);
          gather.clear();  // issued
        }
      }
    }
    editor.Apply();
  }
}

void AddDependency(Dependency dependency, Op* op) {
  std::vector<Dependency>& all = op->dependencies;
  if (std::ranges::find(all, dependency) == all.end()) all.push_back(dependency);
}

}  // namespace

void BackwardPrefetchPass(const Policy& policy, Schedule* schedule) {
  const bool is_post = policy.backward_prefetch == BackwardPrefetch::kPost;
  Prefetch(
      {.phase = Phase::kBackward,
       .point = is_post ? &UnitPass::reshard : &UnitPass::first_compute,
       .depth = policy.backward_prefetch == BackwardPrefetch::kNone ? 0 : policy.backward_depth,
       .lists = &policy.prefetch_lists.backward},
      schedule);
}

void ForwardPrefetchPass(const Policy& policy, Schedule* schedule) {
  Prefetch({.phase = Phase::kForward,
            .depth = policy.forward_prefetch,
            .lists = &policy.prefetch_lists.forward},
           schedule);
}

void RateLimitPass(int limit, Schedule* schedule) {
  if (limit == 0) return;
  for (Program& program : schedule->programs) {
    std::deque<OpIndex> free_events;
    for (size_t index = 0; index < program.ops.size(); ++index) {
      Op& op = program.ops[index];
      // FSDP2's copy-in and FSDP1's all-gather take the unit's unsharded memory. A cast in front of
      // that is not held up (_runtime_utils.py: pre_unshard(), the limiter, unshard()).
      const bool takes_memory = IsGatherOp(*schedule, op) && op.kind != OpKind::kCast &&
                                op.kind != OpKind::kCopyToDevice && !op.allocates.empty();
      if (op.kind == OpKind::kReshard) {
        free_events.push_back(static_cast<OpIndex>(index));
      } else if (takes_memory && free_events.size() >= static_cast<size_t>(limit)) {
        AddDependency({DependencyKind::kHost, free_events.front()}, &op);
        free_events.pop_front();
      }
    }
  }
}

void RunAheadPass(int limit, Schedule* schedule) {
  if (limit < 0) return;
  const auto ahead = static_cast<size_t>(limit);
  for (Program& program : schedule->programs) {
    std::vector<OpIndex> compute;
    for (size_t index = 0; index + 1 < program.ops.size(); ++index) {
      if (!TraitsOf(program.ops[index].kind).runs_segment) continue;
      compute.push_back(static_cast<OpIndex>(index));
      if (compute.size() <= ahead) continue;
      AddDependency({DependencyKind::kHost, compute[compute.size() - 1 - ahead]},
                    &program.ops[index + 1]);
    }
  }
}

}  // namespace shardscope::plan
