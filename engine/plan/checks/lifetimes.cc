#include "engine/plan/checks/lifetimes.h"

#include <algorithm>
#include <string>

#include "engine/plan/checks/grid.h"
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

  Status Run() {
    for (BufferId id = 0; id < static_cast<BufferId>(uses_.size()); ++id) {
      buffer_ = id;
      const Uses& uses = At(id);
      const bool persistent = program_.buffers[static_cast<size_t>(id)].persistent;
      SHARDSCOPE_RETURN_IF_ERROR(persistent ? CheckPersistent(uses) : CheckTransient(uses));
      SHARDSCOPE_RETURN_IF_ERROR(CheckWrites(uses));
      SHARDSCOPE_RETURN_IF_ERROR(CheckReads(uses, persistent));
    }
    return Status::Ok();
  }

 private:
  Uses& At(BufferId id) { return uses_[static_cast<size_t>(id)]; }
  std::string Buffer() const {
    return "buffer " + std::to_string(buffer_) + " '" +
           BufferName(schedule_, program_.buffers[static_cast<size_t>(buffer_)]) + "'";
  }
  std::string Named(OpIndex index) const {
    return "op " + std::to_string(index) + " '" +
           OpName(schedule_, program_.ops[static_cast<size_t>(index)]) + "'";
  }
  Status Error(OpIndex index, const std::string& what) const {
    return Status::Error(ErrorAt(schedule_, program_, index, what));
  }
  bool Before(OpIndex first, OpIndex second) const { return order_.Ordered(first, second); }

  Status CheckPersistent(const Uses& uses) const {
    if (!uses.allocates.empty()) {
      return Error(uses.allocates.front(), "allocates persistent " + Buffer());
    }
    if (!uses.frees.empty()) return Error(uses.frees.front(), "frees persistent " + Buffer());
    return Status::Ok();
  }

  Status CheckTransient(const Uses& uses) const {
    if (uses.allocates.empty()) {
      for (const auto* users : {&uses.reads, &uses.writes, &uses.frees}) {
        if (!users->empty()) {
          return Error(users->front(), "uses " + Buffer() + ", which no op allocates");
        }
      }
      return Status::Error(Buffer() + " is neither persistent nor allocated by an op");
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
        return Error(user, "may use " + Buffer() + " before " + Named(allocate) +
                               " has allocated it: no dependency orders them");
      }
    }
    for (const auto* users : {&uses.reads, &uses.writes}) {
      for (const OpIndex user : *users) {
        if (user == free || Before(user, free)) continue;
        return Error(user, "may use " + Buffer() + " after " + Named(free) +
                               " has freed it: no dependency orders them");
      }
    }
    return Status::Ok();
  }

  // In host order and each before the next: then all pairs are ordered.
  Status CheckWrites(const Uses& uses) const {
    for (size_t index = 1; index < uses.writes.size(); ++index) {
      const OpIndex first = uses.writes[index - 1];
      const OpIndex second = uses.writes[index];
      if (first == second || Before(first, second)) continue;
      return Error(second, "writes " + Buffer() + " while " + Named(first) +
                               " may still write it: no dependency orders them");
    }
    return Status::Ok();
  }

  // Only the writes next to a read in host order matter: the others are ordered with these.
  Status CheckReads(const Uses& uses, bool persistent) const {
    for (const OpIndex read : uses.reads) {
      // An op that reads and writes reads first: its own write does not count.
      const auto before = std::lower_bound(uses.writes.begin(), uses.writes.end(), read);
      const auto after = std::upper_bound(before, uses.writes.end(), read);
      if (before == uses.writes.begin()) {
        if (!persistent) {
          return Error(read, "reads " + Buffer() + ", which no op has written before it");
        }
      } else if (!Before(*(before - 1), read)) {
        return Error(read, "may read " + Buffer() + " before " + Named(*(before - 1)) +
                               " has written it: no dependency orders them");
      }
      if (after != uses.writes.end() && !Before(read, *after)) {
        return Error(*after, "writes " + Buffer() + " while " + Named(read) +
                                 " may still read it: no dependency orders them");
      }
    }
    return Status::Ok();
  }

  const Schedule& schedule_;
  const Program& program_;
  const HappensBefore order_;
  std::vector<Uses> uses_;
  BufferId buffer_ = kNone;  // being checked
};

}  // namespace

Status CheckLifetimes(const Schedule& schedule, const Program& program) {
  return LifetimeCheck(schedule, program).Run();
}

}  // namespace shardscope::plan
