#include "engine/plan/checks/happens_before.h"

#include <algorithm>
#include <utility>

namespace shardscope::plan {

HappensBefore::HappensBefore(const Program& program, int num_streams) : program_(program) {
  const std::vector<std::vector<OpIndex>> predecessors = AllPredecessors(program);
  // What has ended for the host when it issues the next op. Ops of the host stream run on
  // the host itself, so everything issued later comes after them.
  Clock host(static_cast<size_t>(num_streams), kNone);
  start_.reserve(program.ops.size());
  for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
    const Op& op = program.ops[static_cast<size_t>(index)];
    for (const Dependency& dependency : op.dependencies) {
      if (dependency.kind == DependencyKind::kHost) Join(EndOf(dependency.target), &host);
    }
    Clock clock = host;
    for (const OpIndex before : predecessors[static_cast<size_t>(index)]) {
      Join(EndOf(before), &clock);
    }
    start_.push_back(std::move(clock));
    if (op.stream == 0) host = EndOf(index);
  }
}

bool HappensBefore::Ordered(OpIndex first, OpIndex second) const {
  const auto stream = static_cast<size_t>(program_.ops[static_cast<size_t>(first)].stream);
  return start_[static_cast<size_t>(second)][stream] >= first;
}

void HappensBefore::Join(const Clock& other, Clock* clock) {
  for (size_t stream = 0; stream < clock->size(); ++stream) {
    (*clock)[stream] = std::max((*clock)[stream], other[stream]);
  }
}

HappensBefore::Clock HappensBefore::EndOf(OpIndex op) const {
  Clock clock = start_[static_cast<size_t>(op)];
  OpIndex& own = clock[static_cast<size_t>(program_.ops[static_cast<size_t>(op)].stream)];
  own = std::max(own, op);
  return clock;
}

}  // namespace shardscope::plan
