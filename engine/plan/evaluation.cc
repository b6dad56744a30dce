#include "engine/plan/evaluation.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace shardscope::plan {
namespace {

Dependency EventOf(OpIndex op) { return {DependencyKind::kEvent, op}; }

// The stream of forwards.
StreamIndex ComputeStream(const Schedule& schedule) {
  const auto compute = std::ranges::find(schedule.streams, StreamRole::kCompute, &Stream::role);
  return static_cast<StreamIndex>(compute - schedule.streams.begin());
}

// Cuts one program down to its forwards. Ops and buffers are named by their place in the old one
// until all is known that the new one has.
class ForwardsOf {
 public:
  ForwardsOf(const Schedule& schedule, Program* program)
      : segments_(schedule.segments),
        compute_(ComputeStream(schedule)),
        program_(*program),
        old_(program->ops),
        uses_(program->buffers.size()),
        before_(program->ops.size() + 1),
        after_(program->ops.size()) {}

  void Run() {
    FindUses();
    for (BufferId id = 0; id < static_cast<BufferId>(uses_.size()); ++id) FreeAfterLastUse(id);
    Renumber();
    Rewire();
    WaitForSlots();
    DropBuffers();
  }

 private:
  // Of a buffer, by the ops that stay.
  struct Uses {
    bool is_allocated = false;
    bool is_freed = false;
    OpIndex last = kNone;
  };

  Buffer& BufferAt(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }

  // A part that waits for the unit's backward is not made.
  bool Stays(const Op& op) {
    if (op.phase != Phase::kForward) return false;
    return std::ranges::none_of(op.allocates, [this](BufferId id) {
      return BufferAt(id).kind == BufferKind::kPostForwardShard;
    });
  }

  void FindUses() {
    for (OpIndex index = 0; index < std::ssize(old_); ++index) {
      const Op& op = old_[static_cast<size_t>(index)];
      stays_.push_back(Stays(op));
      if (!stays_.back()) continue;
      for (const auto* users : {&op.allocates, &op.reads, &op.writes, &op.frees}) {
        for (const BufferId id : *users) uses_[static_cast<size_t>(id)].last = index;
      }
      for (const BufferId id : op.allocates) uses_[static_cast<size_t>(id)].is_allocated = true;
      for (const BufferId id : op.frees) uses_[static_cast<size_t>(id)].is_freed = true;
    }
  }

  // Where the backward would have: the last forward frees it, or a reshard behind that.
  void FreeAfterLastUse(BufferId id) {
    const Uses& uses = uses_[static_cast<size_t>(id)];
    if (!uses.is_allocated || uses.is_freed) return;
    Op& last = old_[static_cast<size_t>(uses.last)];
    if (last.stream != compute_) return FreeInCompute(id, uses.last);
    if (BufferAt(id).kind != BufferKind::kUnsharded) return last.frees.push_back(id);
    Op reshard = MakeFree(OpKind::kReshard, id, last);
    reshard.unit = BufferAt(id).unit;
    after_[static_cast<size_t>(uses.last)].push_back({std::move(reshard), kNone});
  }

  // Another stream uses it last, as what is sent on: compute frees it as late as it can, so that it
  // does not wait there.
  void FreeInCompute(BufferId id, OpIndex user) {
    const Op& op = old_[static_cast<size_t>(user)];
    OpIndex place = user + 1;
    while (place < std::ssize(old_)) {
      const Op& other = old_[static_cast<size_t>(place)];
      const bool is_next = other.kind == op.kind && other.stream == op.stream;
      if (is_next && stays_[static_cast<size_t>(place)]) break;
      ++place;
    }
    before_[static_cast<size_t>(place)].push_back({MakeFree(OpKind::kRelease, id, op), user});
  }

  Op MakeFree(OpKind kind, BufferId id, const Op& behind) const {
    Op op;
    op.kind = kind;
    op.micro_batch = behind.micro_batch;
    op.stream = compute_;
    op.frees = {id};
    return op;
  }

  void Renumber() {
    std::vector<Op>& ops = program_.ops;
    ops.clear();
    number_.assign(old_.size(), kNone);
    const auto add = [&](std::vector<Added>* all) {
      for (Added& added : *all) {
        if (added.waits_for != kNone) {
          added.op.dependencies = {EventOf(number_[static_cast<size_t>(added.waits_for)])};
        }
        is_added_.push_back(true);
        ops.push_back(std::move(added.op));
      }
    };
    for (size_t index = 0; index < old_.size(); ++index) {
      add(&before_[index]);
      if (!stays_[index]) continue;
      number_[index] = static_cast<OpIndex>(ops.size());
      is_added_.push_back(false);
      ops.push_back(old_[index]);
      add(&after_[index]);
    }
    add(&before_[old_.size()]);
    for (OpIndex index = 0; index < std::ssize(ops); ++index) {
      for (const BufferId id : ops[static_cast<size_t>(index)].frees) freed_by_[id] = index;
    }
  }

  // A wait for an op that is gone is one for what frees in its place, or for nothing.
  void Rewire() {
    for (OpIndex index = 0; index < std::ssize(program_.ops); ++index) {
      if (is_added_[static_cast<size_t>(index)]) continue;
      std::vector<Dependency> all;
      std::vector<Dependency>& dependencies = program_.ops[static_cast<size_t>(index)].dependencies;
      for (const Dependency& dependency : dependencies) {
        if (dependency.kind == DependencyKind::kStream) {
          all.push_back(dependency);
          continue;
        }
        for (const OpIndex target : InPlaceOf(dependency.target)) {
          if (target < index) all.push_back({dependency.kind, target});
        }
      }
      dependencies = std::move(all);
    }
  }

  std::vector<OpIndex> InPlaceOf(OpIndex old) const {
    const auto at = static_cast<size_t>(old);
    if (number_[at] != kNone) return {number_[at]};
    std::vector<OpIndex> targets;
    for (const BufferId id : old_[at].frees) {
      if (const auto found = freed_by_.find(id); found != freed_by_.end()) {
        targets.push_back(found->second);
      }
    }
    return targets;
  }

  // What takes a slot waits for what had it before.
  void WaitForSlots() {
    std::map<BufferId, BufferId> occupants;  // by slot
    for (OpIndex index = 0; index < std::ssize(program_.ops); ++index) {
      Op& op = program_.ops[static_cast<size_t>(index)];
      for (const BufferId id : op.allocates) {
        if (BufferAt(id).slot == kNone) continue;
        const auto [occupant, is_first] = occupants.try_emplace(BufferAt(id).slot, id);
        if (is_first) continue;
        const Dependency free = EventOf(freed_by_.at(std::exchange(occupant->second, id)));
        if (std::ranges::find(op.dependencies, free) == op.dependencies.end()) {
          op.dependencies.push_back(free);
        }
      }
    }
  }

  void DropBuffers() {
    std::vector<BufferId> number(uses_.size(), kNone);
    std::vector<Buffer> buffers;
    for (size_t id = 0; id < uses_.size(); ++id) {
      Buffer buffer = program_.buffers[id];
      if (!buffer.persistent && !uses_[id].is_allocated) continue;
      if (buffer.kind == BufferKind::kActivation) {
        buffer.bytes = segments_[static_cast<size_t>(buffer.segment)].output_bytes;
      }
      number[id] = static_cast<BufferId>(buffers.size());
      buffers.push_back(std::move(buffer));
    }
    for (Buffer& buffer : buffers) {
      if (buffer.slot != kNone) buffer.slot = number[static_cast<size_t>(buffer.slot)];
    }
    program_.buffers = std::move(buffers);
    for (Op& op : program_.ops) {
      for (auto* ids : {&op.allocates, &op.reads, &op.writes, &op.frees}) {
        for (BufferId& id : *ids) id = number[static_cast<size_t>(id)];
      }
    }
  }

  // An op that the old program does not have, and the old op for which it waits.
  struct Added {
    Op op;
    OpIndex waits_for = kNone;
  };

  const std::vector<Segment>& segments_;
  const StreamIndex compute_;
  Program& program_;
  std::vector<Op> old_;
  std::vector<bool> stays_;
  std::vector<Uses> uses_;                  // by buffer
  std::vector<std::vector<Added>> before_;  // by old op, and one more: the end
  std::vector<std::vector<Added>> after_;   // by old op
  std::vector<OpIndex> number_;             // by old op: in the new program; kNone: gone
  std::vector<bool> is_added_;              // by new op
  std::map<BufferId, OpIndex> freed_by_;    // new ops
};

}  // namespace

void KeepForwards(Schedule* schedule) {
  for (Program& program : schedule->programs) ForwardsOf(*schedule, &program).Run();
}

void NameEvaluation(Schedule* schedule) {
  schedule->name += " evaluation";
  for (Program& program : schedule->programs) {
    for (Op& op : program.ops) op.phase = Phase::kEvaluation;
  }
}

bool IsEvaluation(const Schedule& schedule) {
  const Program& program = schedule.programs.front();
  return !program.ops.empty() && program.ops.front().phase == Phase::kEvaluation;
}

}  // namespace shardscope::plan
