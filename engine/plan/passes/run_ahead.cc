#include "engine/plan/passes/run_ahead.h"

#include "engine/plan/passes/editor.h"

namespace shardscope::plan {

void RunAheadPass(int limit, Schedule* schedule) {
  if (limit < 0) return;
  for (Program& program : schedule->programs) {
    ProgramEditor editor(program);
    std::vector<OpIndex> compute;
    const auto size = static_cast<OpIndex>(program.ops.size());
    for (OpIndex index = 0; index + 1 < size; ++index) {
      const OpKind kind = program.ops[static_cast<size_t>(index)].kind;
      if (!TraitsOf(kind).runs_segment) continue;
      compute.push_back(index);
      const auto ahead = static_cast<size_t>(limit);
      if (compute.size() <= ahead) continue;
      editor.AddDependency(index + 1, {DependencyKind::kHost, compute[compute.size() - 1 - ahead]});
    }
    editor.Apply();
  }
}

}  // namespace shardscope::plan
