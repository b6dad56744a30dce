#include "engine/plan/checks/checks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/plan/checks/happens_before.h"

namespace shardscope::plan {
namespace {

// All ops that touch one buffer, in host order.
struct Uses {
  std::vector<OpIndex> allocates;
  std::vector<OpIndex> reads;
  std::vector<OpIndex> writes;
  std::vector<OpIndex> frees;
};

class LifetimeCheck {
 public:
  LifetimeCheck(const Schedule& schedule, const Program& program)
      : schedule_(schedule),
        program_(program),
        order_(program, static_cast<int>(schedule.streams.size())),
        uses_(program.buffers.size()) {
    for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
      const Op& op = program.ops[static_cast<size_t>(index)];
      for (const BufferId id : op.allocates) At(id).allocates.push_back(index);
      for (const BufferId id : op.reads) At(id).reads.push_back(index);
      for (const BufferId id : op.writes) At(id).writes.push_back(index);
      for (const BufferId id : op.frees) At(id).frees.push_back(index);
    }
  }

  std::optional<Refusal> Run() {
    for (BufferId id = 0; id < static_cast<BufferId>(uses_.size()); ++id) {
      buffer_ = id;
      const Uses& uses = At(id);
      const bool persistent = program_.buffers[static_cast<size_t>(id)].persistent;
      std::optional<Refusal> refusal = persistent ? CheckPersistent(uses) : CheckTransient(uses);
      if (!refusal) refusal = CheckWrites(uses);
      if (!refusal) refusal = CheckReads(uses, persistent);
      if (refusal) return refusal;
    }
    return CheckSlots();
  }

 private:
  Uses& At(BufferId id) { return uses_[static_cast<size_t>(id)]; }
  KeptAs Kept() const {
    return TraitsOf(program_.buffers[static_cast<size_t>(buffer_)].kind).kept_as;
  }
  std::string Buffer() const {
    return "buffer " + std::to_string(buffer_) + " '" +
           BufferName(schedule_, program_.buffers[static_cast<size_t>(buffer_)]) + "'";
  }
  std::string Named(OpIndex index) const {
    return "op " + std::to_string(index) + " '" +
           OpName(schedule_, program_.ops[static_cast<size_t>(index)]) + "'";
  }
  Refusal Error(OpIndex index, const std::string& what) const {
    Refusal refusal = RefusalAt(schedule_, program_, RefusalKind::kLifetime, index, what);
    refusal.buffer = buffer_;
    return refusal;
  }
  // `index` and `other` may run in an order in which they must not.
  Refusal Unordered(OpIndex index, OpIndex other, const std::string& before_other,
                    const std::string& after_other) const {
    Refusal refusal =
        RefusalAt(schedule_, program_, RefusalKind::kOrder, index,
                  before_other + Named(other) + after_other + ": no dependency orders them");
    refusal.other = other;
    refusal.buffer = buffer_;
    return refusal;
  }
  bool Before(OpIndex first, OpIndex second) const { return order_.Ordered(first, second); }

  std::optional<Refusal> CheckPersistent(const Uses& uses) const {
    if (!uses.allocates.empty()) {
      return Error(uses.allocates.front(), "allocates persistent " + Buffer());
    }
    if (!uses.frees.empty()) return Error(uses.frees.front(), "frees persistent " + Buffer());
    return std::nullopt;
  }

  std::optional<Refusal> CheckTransient(const Uses& uses) const {
    if (uses.allocates.empty()) {
      for (const auto* users : {&uses.reads, &uses.writes, &uses.frees}) {
        if (!users->empty()) {
          return Error(users->front(), "uses " + Buffer() + ", which no op allocates");
        }
      }
      Refusal refusal;
      refusal.kind = RefusalKind::kLifetime;
      refusal.buffer = buffer_;
      refusal.message = Buffer() + " is neither persistent nor allocated by an op";
      return refusal;
    }
    const OpIndex allocate = uses.allocates.front();
    if (uses.allocates.size() > 1) {
      return Error(uses.allocates[1], "allocates " + Buffer() + " again, after " + Named(allocate));
    }
    if (uses.frees.empty()) {
      return Error(allocate, "allocates " + Buffer() + ", which no op frees: a leak");
    }
    const OpIndex free = uses.frees.front();
    if (uses.frees.size() > 1) {
      return Error(uses.frees[1], "frees " + Buffer() + " again, after " + Named(free));
    }
    for (const auto* users : {&uses.reads, &uses.writes, &uses.frees}) {
      for (const OpIndex user : *users) {
        if (user == allocate || Before(allocate, user)) continue;
        return Unordered(user, allocate, "may use " + Buffer() + " before ", " has allocated it");
      }
    }
    for (const auto* users : {&uses.reads, &uses.writes}) {
      for (const OpIndex user : *users) {
        if (user == free || Before(user, free)) continue;
        return Unordered(user, free, "may use " + Buffer() + " after ", " has freed it");
      }
    }
    return std::nullopt;
  }

  // Of those that share a slot, each is freed before the next is allocated. Checked after all
  // others: each has one op that allocates it and one that frees it.
  std::optional<Refusal> CheckSlots() {
    std::vector<BufferId> shared;
    for (BufferId id = 0; id < static_cast<BufferId>(uses_.size()); ++id) {
      if (SlotOf(id) != kNone) shared.push_back(id);
    }
    std::ranges::sort(shared, {}, [this](BufferId id) {
      return std::pair(SlotOf(id), At(id).allocates.front());
    });
    for (size_t next = 1; next < shared.size(); ++next) {
      const BufferId before = shared[next - 1];
      buffer_ = shared[next];
      if (SlotOf(before) != SlotOf(buffer_)) continue;
      const OpIndex free = At(before).frees.front();
      const OpIndex allocate = At(buffer_).allocates.front();
      if (Before(free, allocate)) continue;
      return Unordered(allocate, free, "may take the memory of " + Buffer() + " before ",
                       " has freed what is there");
    }
    return std::nullopt;
  }
  BufferId SlotOf(BufferId id) const { return program_.buffers[static_cast<size_t>(id)].slot; }

  // In host order and each before the next: then all pairs are ordered.
  std::optional<Refusal> CheckWrites(const Uses& uses) const {
    for (size_t index = 1; index < uses.writes.size(); ++index) {
      const OpIndex first = uses.writes[index - 1];
      const OpIndex second = uses.writes[index];
      if (first == second || Before(first, second)) continue;
      return Unordered(second, first, "writes " + Buffer() + " while ", " may still write it");
    }
    return std::nullopt;
  }

  // What is gathered after an update is what it has made.
  bool IsTakenTooEarly(OpIndex read, OpIndex write) const {
    const Op& reader = program_.ops[static_cast<size_t>(read)];
    const Op& writer = program_.ops[static_cast<size_t>(write)];
    return reader.phase == Phase::kOptimizer && reader.kind != OpKind::kOptimizer &&
           writer.kind == OpKind::kOptimizer && Kept() != KeptAs::kOptimizerState;
  }

  // Only the writes next to a read in host order matter: the others are ordered with these.
  std::optional<Refusal> CheckReads(const Uses& uses, bool persistent) const {
    for (const OpIndex read : uses.reads) {
      // An op that reads and writes reads first: its own write does not count.
      const auto before = std::lower_bound(uses.writes.begin(), uses.writes.end(), read);
      const auto after = std::upper_bound(before, uses.writes.end(), read);
      const bool is_gradient =
          Kept() == KeptAs::kGradientShard || (Kept() == KeptAs::kWholeGradient && persistent);
      if (before == uses.writes.begin()) {
        // What a gradient shard holds from the step before is no gradient of this one.
        if (!persistent || is_gradient) {
          return Error(read, "reads " + Buffer() + ", which no op has written before it");
        }
      } else if (!Before(*(before - 1), read)) {
        return Unordered(read, *(before - 1), "may read " + Buffer() + " before ",
                         " has written it");
      }
      const Phase phase = program_.ops[static_cast<size_t>(read)].phase;
      if (after != uses.writes.end() && IsTakenTooEarly(read, *after)) {
        return Error(read, "reads " + Buffer() + " before " + Named(*after) + " updates it");
      }
      if (is_gradient && phase == Phase::kOptimizer && after != uses.writes.end()) {
        return Error(read, "reads " + Buffer() + " before " + Named(*after) + " writes it");
      }
      if (after != uses.writes.end() && !Before(read, *after)) {
        return Unordered(*after, read, "writes " + Buffer() + " while ", " may still read it");
      }
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  const Program& program_;
  const HappensBefore order_;
  std::vector<Uses> uses_;
  BufferId buffer_ = kNone;  // being checked
};

}  // namespace

std::optional<Refusal> CheckLifetimes(const Schedule& schedule, const Program& program) {
  return LifetimeCheck(schedule, program).Run();
}

}  // namespace shardscope::plan
