#include "engine/plan/passes/rate_limit.h"

#include <deque>

#include "engine/plan/passes/editor.h"
#include "engine/plan/passes/gathers.h"

namespace shardscope::plan {
namespace {

// A gather starts with its cast or copy-in, or with the all-gather itself if it has neither.
bool StartsGather(const Schedule& schedule, const Program& program, OpIndex index) {
  const Op& op = program.ops[static_cast<size_t>(index)];
  if (!IsGatherOp(schedule, op)) return false;
  if (op.kind != OpKind::kAllGather) return true;
  if (index == 0) return true;
  const Op& before = program.ops[static_cast<size_t>(index) - 1];
  return before.unit != op.unit || !IsGatherOp(schedule, before);
}

}  // namespace

void RateLimitPass(int limit, Schedule* schedule) {
  if (limit == 0) return;
  for (Program& program : schedule->programs) {
    ProgramEditor editor(program);
    std::deque<OpIndex> free_events;
    for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
      if (program.ops[static_cast<size_t>(index)].kind == OpKind::kReshard) {
        free_events.push_back(index);
      } else if (StartsGather(*schedule, program, index) &&
                 free_events.size() >= static_cast<size_t>(limit)) {
        editor.AddDependency(index, {DependencyKind::kHost, free_events.front()});
        free_events.pop_front();
      }
    }
    editor.Apply();
  }
}

}  // namespace shardscope::plan
