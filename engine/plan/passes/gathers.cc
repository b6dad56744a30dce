#include "engine/plan/passes/gathers.h"

#include <algorithm>

namespace shardscope::plan {
namespace {

UnitPass& Find(PhasePass& phase, int32_t unit) {
  const auto found = std::find_if(phase.begin(), phase.end(),
                                  [unit](const UnitPass& pass) { return pass.unit == unit; });
  if (found != phase.end()) return *found;
  phase.emplace_back().unit = unit;
  return phase.back();
}

}  // namespace

bool IsGatherOp(const Schedule& schedule, const Op& op) {
  if (op.kind == OpKind::kAllGather) return true;
  // Gradient casts and copies run on other streams.
  const bool copies = op.kind == OpKind::kCast || op.kind == OpKind::kCopyIn;
  return copies && schedule.streams[static_cast<size_t>(op.stream)].role == StreamRole::kCopy;
}

std::vector<PhasePass> FindPhases(const Schedule& schedule, const Program& program, Phase phase) {
  std::vector<PhasePass> phases(static_cast<size_t>(schedule.num_micro_batches));
  for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
    const Op& op = program.ops[static_cast<size_t>(index)];
    if (op.phase != phase || op.micro_batch == kNone) continue;
    PhasePass& units = phases[static_cast<size_t>(op.micro_batch)];
    if (op.segment != kNone) {
      const int32_t unit = schedule.segments[static_cast<size_t>(op.segment)].unit;
      if (unit == kNone) continue;
      UnitPass& pass = Find(units, unit);
      if (pass.first_compute == kNone) pass.first_compute = index;
    } else if (op.kind == OpKind::kReshard) {
      Find(units, op.unit).reshard = index;
    } else if (IsGatherOp(schedule, op)) {
      Find(units, op.unit).gather.push_back(index);
    }
  }
  for (PhasePass& units : phases) {
    std::sort(units.begin(), units.end(), [](const UnitPass& a, const UnitPass& b) {
      return a.first_compute < b.first_compute;
    });
  }
  return phases;
}

}  // namespace shardscope::plan
