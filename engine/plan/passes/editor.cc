#include "engine/plan/passes/editor.h"

#include <algorithm>
#include <utility>

#include "trace/base/check.h"

namespace shardscope::plan {

ProgramEditor::ProgramEditor(Program& program) : program_(program) {
  for (OpId id = 0; id < static_cast<OpId>(program.ops.size()); ++id) {
    place_.push_back(order_.insert(order_.end(), id));
  }
}

void ProgramEditor::MoveBefore(const std::vector<OpId>& group, OpId anchor) {
  const auto target = place_[static_cast<size_t>(anchor)];
  for (const OpId id : group) {
    SHARDSCOPE_CHECK(id != anchor);
    order_.splice(target, order_, place_[static_cast<size_t>(id)]);
  }
}

void ProgramEditor::AddDependency(OpId op, Dependency dependency) {
  std::vector<Dependency>& all = program_.ops[static_cast<size_t>(op)].dependencies;
  if (std::find(all.begin(), all.end(), dependency) == all.end()) all.push_back(dependency);
}

void ProgramEditor::Apply() {
  std::vector<OpIndex> index_of(program_.ops.size());
  OpIndex next = 0;
  for (const OpId id : order_) index_of[static_cast<size_t>(id)] = next++;

  std::vector<Op> ops;
  ops.reserve(program_.ops.size());
  for (const OpId id : order_) {
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

}  // namespace shardscope::plan
