#include "engine/plan/checks/checks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace shardscope::plan {
namespace {

// Ops that meet others, by the queue in which they stand; in issue order.
using Sequences = std::map<Queue, std::vector<OpIndex>>;

Sequences SequencesOf(const Program& program) {
  Sequences sequences;
  for (OpIndex index = 0; index < static_cast<OpIndex>(program.ops.size()); ++index) {
    const Op& op = program.ops[static_cast<size_t>(index)];
    if (op.communicator != kNone) sequences[QueueOf(op)].push_back(index);
  }
  return sequences;
}

// By op: over which communicators what it writes has been added up already, in what order, as one
// number. Ranks of a group agree on it: where one adds up replicas first and another one tensor
// ranks, all of that in place, they would add different parts.
std::vector<size_t> SumsBefore(const Schedule& schedule, const Program& program) {
  std::vector<size_t> of_buffer(program.buffers.size(), 0);
  std::vector<size_t> before;
  for (const Op& op : program.ops) {
    size_t sums = 0;
    for (const BufferId id : op.writes) sums = 31 * sums + of_buffer[static_cast<size_t>(id)];
    before.push_back(sums);
    if (op.communicator == kNone || !TraitsOf(op.kind).reduces) continue;
    if (schedule.GroupSize(op.communicator) == 1) continue;
    for (const BufferId id : op.writes) {
      of_buffer[static_cast<size_t>(id)] =
          31 * of_buffer[static_cast<size_t>(id)] + static_cast<size_t>(op.communicator) + 1;
    }
  }
  return before;
}

bool Matches(const Op& a, const Op& b) {
  // What it is for too: two units of equal size would exchange their contents unnoticed.
  return (a.kind == b.kind || TraitsOf(a.kind).has_peer) && a.payload_bytes == b.payload_bytes &&
         a.dtype == b.dtype && a.unit == b.unit && a.segment == b.segment && a.root == b.root &&
         a.micro_batch == b.micro_batch;
}

// What an op adds up that belongs to no unit or segment: there are several of one size, as the
// gradient's norm and whether it is finite.
std::optional<BufferKind> ScalarOf(const Program& program, const Op& op) {
  const bool is_scalar = op.unit == kNone && op.segment == kNone && TraitsOf(op.kind).reduces;
  if (!is_scalar || op.writes.empty()) return std::nullopt;
  return program.buffers[static_cast<size_t>(op.writes.front())].kind;
}

std::string Describe(const Schedule& schedule, const Program& program, const Op& op) {
  const std::optional<BufferKind> scalar = ScalarOf(program, op);
  return "'" + OpName(schedule, op) + "'" + (scalar ? " of " + std::string(Name(*scalar)) : "") +
         " (" + std::to_string(op.payload_bytes) + " bytes " + std::string(Name(op.dtype)) + ")";
}

// Programs of two ranks that are in one group of `communicator`; `place`: of the peer, else kNone.
struct Pair {
  const Program& reference;
  const Program& program;
  CommunicatorIndex communicator;
  int32_t place = kNone;
  // SumsBefore() of both; of peers, who add up nothing, none.
  const std::vector<size_t>* reference_sums = nullptr;
  const std::vector<size_t>* sums = nullptr;
};

// Where the sequences of what they do together part.
std::optional<Refusal> CompareSequences(const Schedule& schedule, const Pair& pair,
                                        const std::vector<OpIndex>& expected,
                                        const std::vector<OpIndex>& actual) {
  const auto& [reference, program, communicator, place, reference_sums, sums] = pair;
  const std::string where = place == kNone ? "collective number " : "exchange number ";
  const std::string on = (place == kNone ? "" : " with place " + std::to_string(place)) +
                         " on communicator '" +
                         schedule.communicators[static_cast<size_t>(communicator)].name + "'";
  const size_t common = std::min(expected.size(), actual.size());
  for (size_t number = 0; number < common; ++number) {
    const Op& first = reference.ops[static_cast<size_t>(expected[number])];
    const Op& second = program.ops[static_cast<size_t>(actual[number])];
    if (Matches(first, second) && ScalarOf(reference, first) == ScalarOf(program, second)) {
      if (!TraitsOf(first.kind).reduces || sums == nullptr ||
          (*reference_sums)[static_cast<size_t>(expected[number])] ==
              (*sums)[static_cast<size_t>(actual[number])]) {
        continue;
      }
      return RefusalAt(schedule, program, RefusalKind::kMismatch, actual[number],
                       "does not match: " + where + std::to_string(number) + on +
                           " adds up what has been added up over other ranks before than on the "
                           "ranks that it meets");
    }
    return RefusalAt(schedule, program, RefusalKind::kMismatch, actual[number],
                     "does not match: " + where + std::to_string(number) + on + " is " +
                         Describe(schedule, program, second) + " here, but other ranks issue " +
                         Describe(schedule, reference, first));
  }
  if (expected.size() == actual.size()) return std::nullopt;
  const bool here = actual.size() > common;
  return RefusalAt(
      schedule, here ? program : reference, RefusalKind::kMismatch,
      here ? actual[common] : expected[common],
      "has no partner on the other ranks: it is " + where + std::to_string(common) + on);
}

GroupPlace PlaceIn(const Schedule& schedule, size_t communicator, int32_t rank) {
  return PlaceOf(schedule.mesh, schedule.communicators[communicator], rank);
}

// By communicator: whether ranks exchange anything there, so that places count.
std::vector<bool> HavePeers(const Schedule& schedule) {
  std::vector<bool> have(schedule.communicators.size());
  for (const Program& program : schedule.programs) {
    for (const Op& op : program.ops) {
      if (op.peer != kNone) have[static_cast<size_t>(op.communicator)] = true;
    }
  }
  return have;
}

// Ranks that behave alike: they run the same program, and in each of their groups ranks of the same
// classes; where ranks have peers, at the same places.
class Classes {
 public:
  explicit Classes(const Schedule& schedule)
      : have_peers_(HavePeers(schedule)), class_of_rank_(schedule.program_of_rank) {
    size_t num_classes = 0;
    while (Refine(schedule) != num_classes) num_classes = programs_.size();
  }

  // By class.
  const std::vector<int32_t>& programs() const { return programs_; }
  // Communicator, and the classes that are in one group of it.
  const std::set<std::pair<size_t, std::vector<size_t>>>& groups() const { return groups_; }
  // By place of the groups of a communicator with peers; of which a rank of `member` has `place`.
  struct Peers {
    int32_t place = 0;
    std::vector<size_t> classes;
  };
  const Peers& PeersOf(size_t member, CommunicatorIndex communicator) const {
    return peers_.at({member, communicator});
  }

 private:
  // Returns how many classes there are now.
  size_t Refine(const Schedule& schedule) {
    const auto num_ranks = static_cast<size_t>(schedule.num_ranks());
    std::vector<std::vector<size_t>> fellows(num_ranks);  // what tells the rank's class
    groups_.clear();
    peers_.clear();
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      fellows[rank] = {static_cast<size_t>(class_of_rank_[rank])};
    }
    for (size_t communicator = 0; communicator < schedule.communicators.size(); ++communicator) {
      if (have_peers_[communicator]) {
        RefineByPlace(schedule, communicator, &fellows);
        continue;
      }
      std::map<int32_t, std::set<size_t>> members;  // by group
      for (size_t rank = 0; rank < num_ranks; ++rank) {
        members[PlaceIn(schedule, communicator, static_cast<int32_t>(rank)).group].insert(
            static_cast<size_t>(class_of_rank_[rank]));
      }
      for (size_t rank = 0; rank < num_ranks; ++rank) {
        const std::set<size_t>& group =
            members[PlaceIn(schedule, communicator, static_cast<int32_t>(rank)).group];
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

  void RefineByPlace(const Schedule& schedule, size_t communicator,
                     std::vector<std::vector<size_t>>* fellows) {
    std::map<int32_t, std::vector<size_t>> members;  // by group; ranks come by ascending place
    for (size_t rank = 0; rank < fellows->size(); ++rank) {
      members[PlaceIn(schedule, communicator, static_cast<int32_t>(rank)).group].push_back(
          static_cast<size_t>(class_of_rank_[rank]));
    }
    for (size_t rank = 0; rank < fellows->size(); ++rank) {
      const GroupPlace at = PlaceIn(schedule, communicator, static_cast<int32_t>(rank));
      const std::vector<size_t>& group = members[at.group];
      std::vector<size_t>& own = (*fellows)[rank];
      own.push_back(static_cast<size_t>(at.place));
      own.push_back(group.size());
      own.insert(own.end(), group.begin(), group.end());
      const auto member = static_cast<size_t>(class_of_rank_[rank]);
      peers_[{member, static_cast<CommunicatorIndex>(communicator)}] = {at.place, group};
      groups_.emplace(communicator, group);
    }
  }

  const std::vector<bool> have_peers_;  // by communicator
  std::vector<int32_t> class_of_rank_;
  std::vector<int32_t> programs_;
  std::map<std::pair<size_t, CommunicatorIndex>, Peers> peers_;  // of the last round
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
        heads_(schedule.streams.size()) {}

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

  bool Arrived(const Queue& queue) const { return arrived_.contains(queue); }
  // Sends and receives of ops that wait for their peer.
  std::vector<Queue> ArrivedPairs() const {
    std::vector<Queue> pairs;
    for (const auto& [queue, op] : arrived_) {
      if (queue.peer != kNone) pairs.push_back(queue);
    }
    return pairs;
  }

  // All have arrived: the op runs.
  void Complete(const Queue& queue) {
    const OpIndex op = arrived_.at(queue);
    arrived_.erase(queue);
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
    return arrived_.emplace(QueueOf(At(op)), op).second;
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
  std::map<Queue, OpIndex> arrived_;          // what waits for other ranks
  OpIndex next_ = 0;                          // to be issued
  OpIndex last_host_op_ = kNone;
};

const std::vector<OpIndex>& At(const Sequences& sequences, const Queue& queue) {
  static const std::vector<OpIndex> kNoOps;
  const auto found = sequences.find(queue);
  return found == sequences.end() ? kNoOps : found->second;
}

// What each rank of a group sends to each other is what that one receives from it.
std::optional<Refusal> CheckPeersMatch(const Schedule& schedule, CommunicatorIndex communicator,
                                       const std::vector<Sequences>& sequences) {
  std::map<int32_t, std::vector<size_t>> groups;  // programs by place
  for (int32_t rank = 0; rank < schedule.num_ranks(); ++rank) {
    groups[PlaceIn(schedule, static_cast<size_t>(communicator), rank).group].push_back(
        static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]));
  }
  std::set<std::vector<size_t>> checked;
  for (const auto& [group, programs] : groups) {
    if (!checked.insert(programs).second) continue;
    const auto places = static_cast<int32_t>(programs.size());
    for (int32_t from = 0; from < places; ++from) {
      for (int32_t to = 0; to < places; ++to) {
        const size_t sender = programs[static_cast<size_t>(from)];
        const size_t receiver = programs[static_cast<size_t>(to)];
        const std::vector<OpIndex>& sent = At(sequences[sender], {communicator, to, false});
        if (from == to && !sent.empty()) {
          return RefusalAt(schedule, schedule.programs[sender], RefusalKind::kMismatch,
                           sent.front(), "is sent to the rank itself");
        }
        std::optional<Refusal> refusal = CompareSequences(
            schedule, {schedule.programs[sender], schedule.programs[receiver], communicator, from},
            sent, At(sequences[receiver], {communicator, from, true}));
        if (refusal) return refusal;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> CheckCollectivesMatch(const Schedule& schedule) {
  std::vector<Sequences> sequences;       // by program
  std::vector<std::vector<size_t>> sums;  // likewise
  for (const Program& program : schedule.programs) {
    sequences.push_back(SequencesOf(program));
    sums.push_back(SumsBefore(schedule, program));
  }
  const std::vector<bool> have_peers = HavePeers(schedule);
  const auto num_communicators = static_cast<CommunicatorIndex>(schedule.communicators.size());
  for (CommunicatorIndex communicator = 0; communicator < num_communicators; ++communicator) {
    const auto at = static_cast<size_t>(communicator);
    if (have_peers[at]) {
      std::optional<Refusal> refusal = CheckPeersMatch(schedule, communicator, sequences);
      if (refusal) return refusal;
    }
    std::map<int32_t, size_t> first_of_group;  // the program of its first rank
    std::set<std::pair<size_t, size_t>> compared;
    for (int32_t rank = 0; rank < schedule.num_ranks(); ++rank) {
      const auto index = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
      const size_t first =
          first_of_group.try_emplace(PlaceIn(schedule, at, rank).group, index).first->second;
      if (first == index || !compared.emplace(first, index).second) continue;
      std::optional<Refusal> refusal = CompareSequences(
          schedule,
          {schedule.programs[first], schedule.programs[index], communicator, kNone, &sums[first],
           &sums[index]},
          At(sequences[first], {communicator}), At(sequences[index], {communicator}));
      if (refusal) return refusal;
    }
  }
  return std::nullopt;
}

namespace {

// True if any pair had come together.
bool RunExchanges(const Classes& classes, std::vector<Player>* players) {
  bool moved = false;
  for (size_t sender = 0; sender < players->size(); ++sender) {
    for (const Queue& send : (*players)[sender].ArrivedPairs()) {
      if (send.receives) continue;
      const Classes::Peers& peers = classes.PeersOf(sender, send.communicator);
      Player& receiver = (*players)[peers.classes[static_cast<size_t>(send.peer)]];
      const Queue receive = {send.communicator, peers.place, true};
      if (!receiver.Arrived(receive)) continue;
      receiver.Complete(receive);
      (*players)[sender].Complete(send);
      moved = true;
    }
  }
  return moved;
}

}  // namespace

std::optional<Refusal> CheckNoDeadlock(const Schedule& schedule) {
  const std::vector<bool> have_peers = HavePeers(schedule);
  if (schedule.programs.size() < 2 && std::ranges::find(have_peers, true) == have_peers.end()) {
    return std::nullopt;
  }
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
      const Queue queue = {static_cast<CommunicatorIndex>(communicator)};
      const auto arrived = [&](size_t member) { return players[member].Arrived(queue); };
      if (!std::all_of(members.begin(), members.end(), arrived)) continue;
      for (const size_t member : members) players[member].Complete(queue);
      moved = true;
    }
    moved |= RunExchanges(classes, &players);
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
