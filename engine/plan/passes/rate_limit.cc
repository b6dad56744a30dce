#include "engine/plan/passes/rate_limit.h"

#include <deque>

#include "engine/plan/passes/editor.h"
#include "engine/plan/passes/gathers.h"

namespace shardscope::plan {
namespace {

// Where a gather takes the unit's unsharded memory: FSDP2's copy-in, FSDP1's all-gather. A cast in
// front of that is not held up (_runtime_utils.py: pre_unshard(), the limiter, unshard()).
bool TakesUnshardedMemory(const Schedule& schedule, const Op& op) {
  return IsGatherOp(schedule, op) && op.kind != OpKind::kCast && !op.allocates.empty();
}

}  // namespace

void RateLimitPass(int limit, Schedule* schedule) {
  if (limit == 0) return;
  for (Program& program : schedule->programs) {
    ProgramEditor editor(program);
    std::deque<OpIndex> free_events;
    for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
      const Op& op = program.ops[static_cast<size_t>(index)];
      if (op.kind == OpKind::kReshard) {
        free_events.push_back(index);
      } else if (TakesUnshardedMemory(*schedule, op) &&
                 free_events.size() >= static_cast<size_t>(limit)) {
        editor.AddDependency(index, {DependencyKind::kHost, free_events.front()});
        free_events.pop_front();
      }
    }
    editor.Apply();
  }
}

}  // namespace shardscope::plan
