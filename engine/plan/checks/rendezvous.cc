#include "engine/plan/checks/checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace shardscope::plan {
namespace {

// The collectives of each communicator, in issue order.
std::vector<std::vector<OpIndex>> CollectiveSequences(const Schedule& schedule,
                                                      const Program& program) {
  std::vector<std::vector<OpIndex>> sequences(schedule.communicators.size());
  for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
    const CommunicatorIndex communicator = program.ops[static_cast<size_t>(index)].communicator;
    if (communicator != kNone) sequences[static_cast<size_t>(communicator)].push_back(index);
  }
  return sequences;
}

bool SameCollective(const Op& a, const Op& b) {
  // The unit and micro-batch too: two units of equal size would exchange their contents unnoticed.
  return a.kind == b.kind && a.payload_bytes == b.payload_bytes && a.dtype == b.dtype &&
         a.unit == b.unit && a.micro_batch == b.micro_batch;
}

std::string Describe(const Schedule& schedule, const Op& op) {
  return "'" + OpName(schedule, op) + "' (" + std::to_string(op.payload_bytes) + " bytes " +
         std::string(Name(op.dtype)) + ")";
}

// Programs of two ranks that are in one group of `communicator`.
struct Pair {
  const Program& reference;
  const Program& program;
  size_t communicator;
};

// Where the sequences of the communicator part.
std::optional<Refusal> CompareSequences(const Schedule& schedule, const Pair& pair,
                                        const std::vector<OpIndex>& expected,
                                        const std::vector<OpIndex>& actual) {
  const auto& [reference, program, communicator] = pair;
  const std::string where = "collective number ";
  const std::string on = " on communicator '" + schedule.communicators[communicator].name + "'";
  const size_t common = std::min(expected.size(), actual.size());
  for (size_t number = 0; number < common; ++number) {
    const Op& first = reference.ops[static_cast<size_t>(expected[number])];
    const Op& second = program.ops[static_cast<size_t>(actual[number])];
    if (SameCollective(first, second)) continue;
    return RefusalAt(schedule, program, RefusalKind::kMismatch, actual[number],
                     "does not match: " + where + std::to_string(number) + on + " is " +
                         Describe(schedule, second) + " here, but other ranks issue " +
                         Describe(schedule, first));
  }
  if (expected.size() == actual.size()) return std::nullopt;
  const bool here = actual.size() > common;
  return RefusalAt(
      schedule, here ? program : reference, RefusalKind::kMismatch,
      here ? actual[common] : expected[common],
      "has no partner on the other ranks: it is " + where + std::to_string(common) + on);
}

int32_t GroupOf(const Schedule& schedule, size_t communicator, int32_t rank) {
  return PlaceOf(schedule.mesh, schedule.communicators[communicator].dimensions, rank).group;
}

// Ranks that behave alike: they run the same program, and in each of their groups ranks of the same
// classes.
class Classes {
 public:
  explicit Classes(const Schedule& schedule) : class_of_rank_(schedule.program_of_rank) {
    size_t num_classes = 0;
    while (Refine(schedule) != num_classes) num_classes = programs_.size();
  }

  // By class.
  const std::vector<int32_t>& programs() const { return programs_; }
  // Communicator, and the classes that are in one group of it.
  const std::set<std::pair<size_t, std::vector<size_t>>>& groups() const { return groups_; }

 private:
  // Returns how many classes there are now.
  size_t Refine(const Schedule& schedule) {
    const auto num_ranks = static_cast<size_t>(schedule.num_ranks());
    std::vector<std::vector<size_t>> fellows(num_ranks);  // what tells the rank's class
    groups_.clear();
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      fellows[rank] = {static_cast<size_t>(class_of_rank_[rank])};
    }
    for (size_t communicator = 0; communicator < schedule.communicators.size(); ++communicator) {
      std::map<int32_t, std::set<size_t>> members;  // by group
      for (size_t rank = 0; rank < num_ranks; ++rank) {
        members[GroupOf(schedule, communicator, static_cast<int32_t>(rank))].insert(
            static_cast<size_t>(class_of_rank_[rank]));
      }
      for (size_t rank = 0; rank < num_ranks; ++rank) {
        const std::set<size_t>& group =
            members[GroupOf(schedule, communicator, static_cast<int32_t>(rank))];
        fellows[rank].push_back(group.size());
        fellows[rank].insert(fellows[rank].end(), group.begin(), group.end());
        groups_.emplace(communicator, std::vector<size_t>(group.begin(), group.end()));
      }
    }
    std::map<std::vector<size_t>, int32_t> number;
    programs_.clear();
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      const auto [entry, is_new] =
          number.try_emplace(fellows[rank], static_cast<int32_t>(number.size()));
      class_of_rank_[rank] = entry->second;
      if (is_new) programs_.push_back(schedule.program_of_rank[rank]);
    }
    return programs_.size();
  }

  std::vector<int32_t> class_of_rank_;
  std::vector<int32_t> programs_;
  std::set<std::pair<size_t, std::vector<size_t>>> groups_;
};

// One program while it is played.
class Player {
 public:
  Player(const Schedule& schedule, const Program& program)
      : program_(program),
        predecessors_(AllPredecessors(program)),
        done_(program.ops.size()),
        queues_(schedule.streams.size()),
        heads_(schedule.streams.size()),
        arrived_(schedule.communicators.size(), kNone) {}

  // Issues and runs whatever can go, up to the next collectives. True if anything moved.
  bool Advance() {
    bool moved = false;
    for (bool again = true; again;) {
      again = IssueNext();
      for (size_t stream = 0; stream < queues_.size(); ++stream) again |= RunHead(stream);
      moved |= again;
    }
    return moved;
  }

  bool Arrived(size_t communicator) const { return arrived_[communicator] != kNone; }

  // All ranks have arrived: the collective runs.
  void Complete(size_t communicator) {
    const OpIndex op = std::exchange(arrived_[communicator], kNone);
    Finish(op);
  }

  // kNone if all has run.
  OpIndex FirstUnfinished() const {
    const auto found = std::find(done_.begin(), done_.end(), false);
    return found == done_.end() ? kNone : static_cast<OpIndex>(found - done_.begin());
  }

 private:
  bool Done(OpIndex op) const { return done_[static_cast<size_t>(op)]; }
  const Op& At(OpIndex op) const { return program_.ops[static_cast<size_t>(op)]; }

  bool IssueNext() {
    if (next_ >= static_cast<OpIndex>(program_.ops.size())) return false;
    // Ops of the host stream run on the host: until the last one has ended nothing is issued.
    if (last_host_op_ != kNone && !Done(last_host_op_)) return false;
    for (const Dependency& dependency : At(next_).dependencies) {
      if (dependency.kind == DependencyKind::kHost && !Done(dependency.target)) return false;
    }
    if (At(next_).stream == 0) last_host_op_ = next_;
    queues_[static_cast<size_t>(At(next_).stream)].push_back(next_);
    ++next_;
    return true;
  }

  bool RunHead(size_t stream) {
    if (heads_[stream] >= queues_[stream].size()) return false;
    const OpIndex op = queues_[stream][heads_[stream]];
    for (const OpIndex before : predecessors_[static_cast<size_t>(op)]) {
      if (!Done(before)) return false;
    }
    if (At(op).communicator == kNone) {
      Finish(op);
      return true;
    }
    OpIndex& arrived = arrived_[static_cast<size_t>(At(op).communicator)];
    return std::exchange(arrived, op) != op;
  }

  void Finish(OpIndex op) {
    done_[static_cast<size_t>(op)] = true;
    ++heads_[static_cast<size_t>(At(op).stream)];
  }

  const Program& program_;
  const std::vector<std::vector<OpIndex>> predecessors_;
  std::vector<bool> done_;
  std::vector<std::vector<OpIndex>> queues_;  // by stream: issued ops
  std::vector<size_t> heads_;                 // by stream: how many of them have run
  std::vector<OpIndex> arrived_;              // by communicator: waits for the other ranks
  OpIndex next_ = 0;                          // to be issued
  OpIndex last_host_op_ = kNone;
};

}  // namespace

std::optional<Refusal> CheckCollectivesMatch(const Schedule& schedule) {
  std::vector<std::vector<std::vector<OpIndex>>> sequences;  // by program, communicator
  for (const Program& program : schedule.programs) {
    sequences.push_back(CollectiveSequences(schedule, program));
  }
  for (size_t communicator = 0; communicator < schedule.communicators.size(); ++communicator) {
    std::map<int32_t, size_t> first_of_group;  // the program of its first rank
    std::set<std::pair<size_t, size_t>> compared;
    for (int32_t rank = 0; rank < schedule.num_ranks(); ++rank) {
      const auto index = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
      const size_t first =
          first_of_group.try_emplace(GroupOf(schedule, communicator, rank), index).first->second;
      if (first == index || !compared.emplace(first, index).second) continue;
      std::optional<Refusal> refusal = CompareSequences(
          schedule, {schedule.programs[first], schedule.programs[index], communicator},
          sequences[first][communicator], sequences[index][communicator]);
      if (refusal) return refusal;
    }
  }
  return std::nullopt;
}

std::optional<Refusal> CheckNoDeadlock(const Schedule& schedule) {
  if (schedule.programs.size() < 2) return std::nullopt;
  // Ranks of a class behave alike, so one player stands for all of them.
  const Classes classes(schedule);
  std::vector<Player> players;
  for (const int32_t program : classes.programs()) {
    players.emplace_back(schedule, schedule.programs[static_cast<size_t>(program)]);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Player& player : players) moved |= player.Advance();
    for (const auto& [communicator, members] : classes.groups()) {
      const auto arrived = [&, on = communicator](size_t member) {
        return players[member].Arrived(on);
      };
      if (!std::all_of(members.begin(), members.end(), arrived)) continue;
      for (const size_t member : members) players[member].Complete(communicator);
      moved = true;
    }
  }
  for (size_t index = 0; index < players.size(); ++index) {
    const OpIndex stuck = players[index].FirstUnfinished();
    if (stuck == kNone) continue;
    const auto program = static_cast<size_t>(classes.programs()[index]);
    return RefusalAt(schedule, schedule.programs[program], RefusalKind::kDeadlock, stuck,
                     "never ends: the ranks wait for each other, a deadlock");
  }
  return std::nullopt;
}

}  // namespace shardscope::plan
