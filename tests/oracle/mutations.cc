#include "tests/oracle/mutations.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace shardscope::oracle {
namespace {

using plan::BufferId;
using plan::Dependency;
using plan::DependencyKind;
using plan::Op;
using plan::OpIndex;
using plan::Program;
using plan::Schedule;

template <typename T>
const T& AnyOf(const std::vector<T>& choices, Random& random) {
  return choices[static_cast<size_t>(random.Below(static_cast<int64_t>(choices.size())))];
}

void Remove(std::vector<BufferId>* list, BufferId id) {
  list->erase(std::find(list->begin(), list->end(), id));
}

bool IsCollective(const Op& op) {
  return plan::CategoryOf(op.kind) == plan::Category::kCommunication;
}

// Breaks one program in place. Each function says whether there was anything to break, and leaves
// in `mutant` which ops are concerned.
class Breaker {
 public:
  Breaker(Mutant* mutant, Random& random)
      : mutant_(*mutant),
        program_(mutant->schedule.programs[static_cast<size_t>(mutant->program)]),
        random_(random) {}

  bool Break(MutationKind kind) {
    switch (kind) {
      case MutationKind::kDroppedDependency:
        return DropDependency();
      case MutationKind::kEarlyFree:
        return FreeEarly();
      case MutationKind::kUseAfterFree:
        return UseAfterFree();
      case MutationKind::kMissingFree:
        return ForgetFree();
      case MutationKind::kDoubleFree:
        return FreeTwice();
      case MutationKind::kSwappedCollectives:
        return random_.OneIn(2) ? SwapContents() : MoveCollective();
      case MutationKind::kWrongCommunicator:
        return ChangeCommunicator();
      case MutationKind::kWrongBytes:
        return ChangeBytes();
      case MutationKind::kWrongPeer:
        return ChangePeer();
      case MutationKind::kMissingExchange:
        return ForgetExchange();
    }
    return false;
  }

 private:
  OpIndex NumOps() const { return static_cast<OpIndex>(program_.ops.size()); }
  Op& At(OpIndex index) { return program_.ops[static_cast<size_t>(index)]; }

  template <typename Predicate>
  std::vector<OpIndex> Where(Predicate predicate) {
    std::vector<OpIndex> found;
    for (OpIndex index = 0; index < NumOps(); ++index) {
      if (predicate(At(index))) found.push_back(index);
    }
    return found;
  }

  // A random op that frees something, with one of the buffers.
  std::pair<OpIndex, BufferId> RandomFree() {
    const std::vector<OpIndex> all = Where([](const Op& op) { return !op.frees.empty(); });
    if (all.empty()) return {plan::kNone, plan::kNone};
    const OpIndex op = AnyOf(all, random_);
    return {op, AnyOf(At(op).frees, random_)};
  }

  bool DropDependency() {
    const std::vector<OpIndex> all = Where([](const Op& op) { return !op.dependencies.empty(); });
    if (all.empty()) return false;
    mutant_.op = AnyOf(all, random_);
    std::vector<Dependency>& waits = At(mutant_.op).dependencies;
    const auto dropped = waits.begin() + random_.Below(static_cast<int64_t>(waits.size()));
    mutant_.other = dropped->target;
    if (dropped->kind == DependencyKind::kStream) {
      // What had been issued there last.
      OpIndex last = mutant_.op - 1;
      while (last >= 0 && At(last).stream != dropped->target) --last;
      mutant_.other = last;
    }
    waits.erase(dropped);
    return true;
  }

  bool FreeEarly() {
    const auto [free, id] = RandomFree();
    if (free == plan::kNone) return false;
    OpIndex allocate = 0;
    while (std::count(At(allocate).allocates.begin(), At(allocate).allocates.end(), id) == 0) {
      ++allocate;
    }
    if (allocate + 1 >= free) return false;
    Remove(&At(free).frees, id);
    mutant_.op = random_.Between(allocate, free - 1);
    mutant_.other = free;
    At(mutant_.op).frees.push_back(id);
    return true;
  }

  bool UseAfterFree() {
    const auto [free, id] = RandomFree();
    if (free == plan::kNone || free + 1 >= NumOps()) return false;
    mutant_.op = random_.Between(free + 1, std::min(NumOps() - 1, free + 20));
    mutant_.other = free;
    Op& op = At(mutant_.op);
    (random_.OneIn(4) ? op.writes : op.reads).push_back(id);
    return true;
  }

  bool ForgetFree() {
    const auto [free, id] = RandomFree();
    if (free == plan::kNone) return false;
    mutant_.op = free;
    Remove(&At(free).frees, id);
    return true;
  }

  bool FreeTwice() {
    const auto [free, id] = RandomFree();
    if (free == plan::kNone) return false;
    mutant_.op = random_.OneIn(8) ? free : static_cast<OpIndex>(random_.Below(NumOps()));
    mutant_.other = free;
    At(mutant_.op).frees.push_back(id);
    return true;
  }

  // Two collectives of one kind exchange everything but their place and their waits.
  bool SwapContents() {
    const std::vector<OpIndex> all = Where(IsCollective);
    for (int attempt = 0; attempt < 20; ++attempt) {
      const OpIndex first = AnyOf(all, random_);
      const OpIndex second = AnyOf(all, random_);
      if (first == second || At(first).kind != At(second).kind) continue;
      std::swap(At(first), At(second));
      std::swap(At(first).dependencies, At(second).dependencies);
      std::swap(At(first).stream, At(second).stream);
      mutant_.op = first;
      mutant_.other = second;
      return true;
    }
    return false;
  }

  // A collective, with the ops it needs, moves to before an earlier one.
  bool MoveCollective() {
    const std::vector<OpIndex> all = Where(IsCollective);
    if (all.size() < 2) return false;
    const int64_t late = 1 + random_.Below(static_cast<int64_t>(all.size()) - 1);
    const int64_t early = std::max<int64_t>(0, late - 1 - random_.Below(3));
    const OpIndex first = all[static_cast<size_t>(early)];
    const OpIndex second = all[static_cast<size_t>(late)];
    std::set<OpIndex> moved = {second};
    // The ops between that it waits for by name, from the last to the first.
    for (OpIndex index = second; index >= first; --index) {
      if (moved.count(index) == 0) continue;
      for (const Dependency& wait : At(index).dependencies) {
        if (wait.kind != DependencyKind::kStream && wait.target >= first) moved.insert(wait.target);
      }
    }
    if (moved.count(first) > 0) return false;
    Move(moved, first);
    mutant_.op = first;
    return true;
  }

  void Move(const std::set<OpIndex>& moved, OpIndex anchor) {
    std::vector<OpIndex> order;
    for (OpIndex index = 0; index < NumOps(); ++index) {
      if (index == anchor) order.insert(order.end(), moved.begin(), moved.end());
      if (moved.count(index) == 0) order.push_back(index);
    }
    std::vector<OpIndex> new_index(order.size());
    for (size_t at = 0; at < order.size(); ++at) {
      new_index[static_cast<size_t>(order[at])] = static_cast<OpIndex>(at);
    }
    std::vector<Op> ops;
    for (const OpIndex index : order) {
      ops.push_back(At(index));
      for (Dependency& wait : ops.back().dependencies) {
        if (wait.kind != DependencyKind::kStream) {
          wait.target = new_index[static_cast<size_t>(wait.target)];
        }
      }
    }
    program_.ops = std::move(ops);
  }

  bool ChangeCommunicator() {
    const std::vector<OpIndex> all = Where(IsCollective);
    if (all.empty()) return false;
    mutant_.op = AnyOf(all, random_);
    // One that the other collectives do not use, or one that does not exist.
    mutant_.schedule.communicators.push_back({"another"});
    const auto another = static_cast<int>(mutant_.schedule.communicators.size()) - 1;
    At(mutant_.op).communicator =
        random_.OneIn(10) ? random_.Between(another + 1, another + 8) : another;
    if (random_.OneIn(20)) At(mutant_.op).communicator = plan::kNone;
    return true;
  }

  bool ChangeBytes() {
    const std::vector<OpIndex> all = Where(IsCollective);
    if (all.empty()) return false;
    mutant_.op = AnyOf(all, random_);
    Op& op = At(mutant_.op);
    const int64_t difference = random_.OneIn(2) ? 1 : -random_.Between(1, 2);
    switch (random_.Below(4)) {
      case 0:
        op.wire_bytes += difference;
        return true;
      case 1:
        op.payload_bytes += difference;
        return true;
      case 2:  // consistent in itself
        op.payload_bytes *= 2;
        op.wire_bytes =
            plan::WireBytes(op.kind, op.payload_bytes, mutant_.schedule.GroupSize(op.communicator));
        return true;
      default:
        return ChangeBufferBytes(difference);
    }
  }

  bool ChangePeer() {
    const std::vector<OpIndex> all = Where([](const Op& op) { return op.peer != plan::kNone; });
    if (all.empty()) return false;
    mutant_.op = AnyOf(all, random_);
    Op& op = At(mutant_.op);
    const int32_t places = mutant_.schedule.GroupSize(op.communicator);
    op.peer = random_.OneIn(6) ? random_.Between(places, places + 3)
                               : (op.peer + random_.Between(1, places - 1)) % places;
    return true;
  }

  // It becomes a plain wait.
  bool ForgetExchange() {
    const std::vector<OpIndex> all = Where([](const Op& op) { return op.peer != plan::kNone; });
    if (all.empty()) return false;
    mutant_.op = AnyOf(all, random_);
    Op& op = At(mutant_.op);
    op.kind = plan::OpKind::kRelease;
    op.communicator = op.peer = plan::kNone;
    op.dtype = plan::DType::kFp32;
    op.payload_bytes = op.wire_bytes = 0;
    return true;
  }

  // Of a buffer with a unit's elements: others are estimates.
  bool ChangeBufferBytes(int64_t difference) {
    std::vector<std::pair<OpIndex, BufferId>> uses;
    for (OpIndex index = 0; index < NumOps(); ++index) {
      for (const auto* list : {&At(index).reads, &At(index).writes}) {
        for (const BufferId id : *list) {
          if (program_.buffers[static_cast<size_t>(id)].unit != plan::kNone) {
            uses.emplace_back(index, id);
          }
        }
      }
    }
    if (uses.empty()) return false;
    const auto [op, id] = AnyOf(uses, random_);
    mutant_.op = op;
    program_.buffers[static_cast<size_t>(id)].bytes += difference;
    return true;
  }

  Mutant& mutant_;
  Program& program_;
  Random& random_;
};

}  // namespace

std::string_view Name(MutationKind kind) {
  static constexpr std::array<std::string_view, kNumMutationKinds> kNames = {
      "dropped dependency", "early free",          "use after free",     "missing free",
      "double free",        "swapped collectives", "wrong communicator", "wrong bytes",
      "wrong peer",         "missing exchange"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<Mutant> Mutate(const Schedule& schedule, MutationKind kind, Random& random) {
  Mutant mutant;
  mutant.schedule = schedule;
  const bool needs_two = kind == MutationKind::kSwappedCollectives;
  if (needs_two && schedule.num_ranks() == 1) return std::nullopt;
  if (schedule.num_ranks() > 1 && (needs_two || random.OneIn(2))) {
    // One rank gets a program of its own.
    mutant.program = static_cast<int32_t>(mutant.schedule.programs.size());
    const auto rank = static_cast<int>(random.Below(schedule.num_ranks()));
    mutant.schedule.programs.push_back(schedule.ProgramOf(rank));
    mutant.schedule.program_of_rank[static_cast<size_t>(rank)] = mutant.program;
  } else {
    mutant.program = static_cast<int32_t>(random.Below(std::ssize(schedule.programs)));
  }
  if (!Breaker(&mutant, random).Break(kind)) return std::nullopt;
  return mutant;
}

}  // namespace shardscope::oracle
