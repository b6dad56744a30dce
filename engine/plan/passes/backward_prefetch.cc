#include "engine/plan/passes/backward_prefetch.h"

#include <algorithm>

#include "engine/plan/passes/editor.h"
#include "engine/plan/passes/gathers.h"

namespace shardscope::plan {
namespace {

// The op before which unit `pass` issues its prefetches; kNone if it has no such point.
OpIndex PrefetchPoint(BackwardPrefetch mode, const UnitPass& pass) {
  if (mode == BackwardPrefetch::kPre) return pass.first_compute;
  return pass.reshard == kNone ? kNone : pass.reshard + 1;
}

void Prefetch(BackwardPrefetch mode, int depth, PhasePass units, ProgramEditor* editor) {
  for (size_t at = 0; at < units.size(); ++at) {
    const OpIndex point = PrefetchPoint(mode, units[at]);
    if (point == kNone) continue;
    const size_t end = std::min(units.size(), at + 1 + static_cast<size_t>(depth));
    for (size_t next = at + 1; next < end; ++next) {
      std::vector<OpIndex>& gather = units[next].gather;
      // With POST, a root that spans the others reaches its reshard after they were gathered.
      if (gather.empty() || gather.front() < point) continue;
      editor->MoveBefore(gather, point);
      gather.clear();  // issued
    }
  }
}

}  // namespace

void BackwardPrefetchPass(BackwardPrefetch mode, int depth, Schedule* schedule) {
  if (mode == BackwardPrefetch::kNone) return;
  for (Program& program : schedule->programs) {
    const std::vector<PhasePass> phases = FindPhases(*schedule, program, Phase::kBackward);
    ProgramEditor editor(program);
    for (const PhasePass& units : phases) Prefetch(mode, depth, units, &editor);
    editor.Apply();
  }
}

}  // namespace shardscope::plan
