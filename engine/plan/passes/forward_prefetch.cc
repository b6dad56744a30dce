#include "engine/plan/passes/forward_prefetch.h"

#include <algorithm>

#include "engine/plan/passes/editor.h"
#include "engine/plan/passes/gathers.h"

namespace shardscope::plan {

void ForwardPrefetchPass(int depth, Schedule* schedule) {
  if (depth == 0) return;
  for (Program& program : schedule->programs) {
    std::vector<PhasePass> phases = FindPhases(*schedule, program, Phase::kForward);
    ProgramEditor editor(program);
    for (PhasePass& units : phases) {
      for (size_t at = 0; at < units.size(); ++at) {
        const size_t end = std::min(units.size(), at + 1 + static_cast<size_t>(depth));
        for (size_t next = at + 1; next < end; ++next) {
          editor.MoveBefore(units[next].gather, units[at].first_compute);
          units[next].gather.clear();  // issued
        }
      }
    }
    editor.Apply();
  }
}

}  // namespace shardscope::plan
