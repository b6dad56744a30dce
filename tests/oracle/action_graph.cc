#include "tests/oracle/action_graph.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shardscope::oracle {

using plan::Dependency;
using plan::DependencyKind;
using plan::Op;
using plan::OpIndex;

ActionGraph::ActionGraph(const plan::Schedule& schedule)
    : schedule_(schedule),
      first_of_rank_(1, 0),
      collectives_(schedule.communicators.size(),
                   std::vector<std::vector<int32_t>>(static_cast<size_t>(schedule.num_ranks()))) {
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    const auto num_ops = static_cast<int32_t>(schedule.ProgramOf(rank).ops.size());
    first_of_rank_.push_back(first_of_rank_.back() + num_ops);
  }
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) AddRank(rank);
  AddMeetings();
  Index();
}

int ActionGraph::RankOf(int32_t instance) const {
  const auto after = std::upper_bound(first_of_rank_.begin(), first_of_rank_.end(), instance);
  return static_cast<int>(after - first_of_rank_.begin()) - 1;
}

void ActionGraph::AddRank(int rank) {
  const std::vector<Op>& ops = schedule_.ProgramOf(rank).ops;
  std::vector<OpIndex> last_of_stream(schedule_.streams.size(), plan::kNone);
  const auto action = [&](OpIndex op, Stage stage) {
    return ActionOf(InstanceOf(rank, op), stage);
  };
  for (OpIndex index = 0; index < static_cast<OpIndex>(ops.size()); ++index) {
    const Op& op = ops[static_cast<size_t>(index)];
    const Action issue = action(index, Stage::kIssue);
    const Action start = action(index, Stage::kStart);
    AddEdge(issue, start);
    AddEdge(start, action(index, Stage::kEnd));
    if (index > 0) {
      // The host goes on as soon as it has issued, unless it ran the op itself.
      const bool on_host = ops[static_cast<size_t>(index) - 1].stream == 0;
      AddEdge(action(index - 1, on_host ? Stage::kEnd : Stage::kIssue), issue);
    }
    for (const Dependency& wait : op.dependencies) {
      if (wait.kind == DependencyKind::kStream) {
        const OpIndex last = last_of_stream[static_cast<size_t>(wait.target)];
        if (last != plan::kNone) AddEdge(action(last, Stage::kEnd), start);
      } else if (wait.target < 0 || wait.target >= index) {
        findings_.push_back({Harm::kNoSuchThing, rank, index});
      } else {
        AddEdge(action(wait.target, Stage::kEnd),
                wait.kind == DependencyKind::kHost ? issue : start);
      }
    }
    OpIndex& previous = last_of_stream[static_cast<size_t>(op.stream)];
    if (previous != plan::kNone) AddEdge(action(previous, Stage::kEnd), start);
    previous = index;
    if (plan::CategoryOf(op.kind) != plan::Category::kCommunication) continue;
    if (op.communicator < 0 || static_cast<size_t>(op.communicator) >= collectives_.size()) {
      findings_.push_back({Harm::kNoSuchThing, rank, index});
      continue;
    }
    const bool receives = op.kind == plan::OpKind::kReceive;
    const bool has_peer = receives || op.kind == plan::OpKind::kSend;
    if (has_peer && (op.peer < 0 || op.peer >= schedule_.GroupSize(op.communicator))) {
      findings_.push_back({Harm::kNoSuchThing, rank, index});
      continue;
    }
    const bool is_shared = has_peer || op.segment != plan::kNone || op.unit != plan::kNone;
    if (is_shared && op.root == plan::kNone && !StaysWithin(op)) {
      findings_.push_back({Harm::kNoSuchThing, rank, index});
    }
    std::vector<int32_t>& queue =
        has_peer ? exchanges_[{op.communicator, rank, op.peer, receives}]
                 : collectives_[static_cast<size_t>(op.communicator)][static_cast<size_t>(rank)];
    if (!queue.empty()) AddEdge(ActionOf(queue.back(), Stage::kEnd), start);
    queue.push_back(InstanceOf(rank, index));
  }
}

// What is exchanged of a segment: between stages, or among those that share its work. Of a unit:
// not between stages, and among those that share its work alone or those with other samples alone.
bool ActionGraph::StaysWithin(const Op& op) const {
  using plan::MeshDimension;
  const unsigned dimensions =
      schedule_.communicators[static_cast<size_t>(op.communicator)].dimensions;
  const auto differs = [&](MeshDimension dimension) {
    const auto at = static_cast<size_t>(dimension);
    return (dimensions >> at & 1U) != 0 && schedule_.mesh.sizes[at] > 1;
  };
  const bool stages = differs(MeshDimension::kPipeline);
  const bool work = differs(MeshDimension::kTensor);
  const bool samples = differs(MeshDimension::kReplicate) || differs(MeshDimension::kShard);
  if (op.kind == plan::OpKind::kSend || op.kind == plan::OpKind::kReceive) return !work && !samples;
  if (op.segment != plan::kNone) return !stages && !samples;
  return !stages && !(work && samples);
}

// Ranks whose coordinates in all dimensions but the communicator's are equal; of these, where it
// has runs, so many that follow each other. By counting, not with the mesh's own functions.
std::vector<ActionGraph::GroupQueues> ActionGraph::Groups() const {
  std::vector<GroupQueues> all;
  for (size_t communicator = 0; communicator < collectives_.size(); ++communicator) {
    const unsigned dimensions = schedule_.communicators[communicator].dimensions;
    const int run = schedule_.communicators[communicator].run;
    std::map<std::vector<int>, int> num_before;      // of ranks with those coordinates
    std::map<std::vector<int>, GroupQueues> groups;  // by those coordinates, and the run
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      std::vector<int> others;
      int rest = rank;
      for (size_t dimension = schedule_.mesh.sizes.size(); dimension-- > 0;) {
        const int coordinate = rest % schedule_.mesh.sizes[dimension];
        rest /= schedule_.mesh.sizes[dimension];
        if ((dimensions >> dimension & 1U) == 0) others.push_back(coordinate);
      }
      if (run > 0) {
        const int before = num_before[others]++;
        others.push_back(before / run);
      }
      GroupQueues& group = groups[others];
      group.ranks.push_back(rank);
      group.queues.push_back(collectives_[communicator][static_cast<size_t>(rank)]);
    }
    for (auto& [others, group] : groups) {
      AddPairs(group, static_cast<plan::CommunicatorIndex>(communicator), &all);
      all.push_back(std::move(group));
    }
  }
  return all;
}

// What each member sends to each other, and that one receives from it: ranks are in the order of
// their places.
void ActionGraph::AddPairs(const GroupQueues& members, plan::CommunicatorIndex communicator,
                           std::vector<GroupQueues>* all) const {
  const auto queue_of = [&](int rank, size_t peer, bool receives) {
    const auto found = exchanges_.find({communicator, rank, static_cast<int32_t>(peer), receives});
    return found == exchanges_.end() ? std::vector<int32_t>() : found->second;
  };
  for (size_t from = 0; from < members.ranks.size(); ++from) {
    for (size_t to = 0; to < members.ranks.size(); ++to) {
      GroupQueues pair;
      pair.ranks = {members.ranks[from], members.ranks[to]};
      pair.queues = {queue_of(pair.ranks[0], to, false), queue_of(pair.ranks[1], from, true)};
      if (!pair.queues[0].empty() || !pair.queues[1].empty()) all->push_back(std::move(pair));
    }
  }
}

void ActionGraph::AddMeetings() {
  const auto op_of = [&](int rank, OpIndex op) -> const Op& {
    return schedule_.ProgramOf(rank).ops[static_cast<size_t>(op)];
  };
  for (const auto& [queues, ranks] : Groups()) {
    size_t longest = 0;
    for (const std::vector<int32_t>& queue : queues) longest = std::max(longest, queue.size());
    for (size_t number = 0; number < longest; ++number) {
      const Action meeting = FirstMeeting() + static_cast<Action>(meetings_.size());
      Meeting& members = meetings_.emplace_back();
      const bool all_come = std::all_of(queues.begin(), queues.end(),
                                        [&](const auto& queue) { return number < queue.size(); });
      // A wait for itself: the meeting never happens.
      if (!all_come) AddEdge(meeting, meeting);
      for (size_t member = 0; member < ranks.size(); ++member) {
        const int rank = ranks[member];
        const std::vector<int32_t>& queue = queues[member];
        if (number >= queue.size()) continue;
        const int32_t instance = queue[number];
        members.instances.push_back(instance);
        AddEdge(ActionOf(instance, Stage::kStart), meeting);
        AddEdge(meeting, ActionOf(instance, Stage::kEnd));
        if (!all_come) {
          findings_.push_back({Harm::kNoPartner, rank, OpOf(instance)});
          continue;
        }
        const Op& first = op_of(ranks.front(), OpOf(members.instances.front()));
        const Op& here = op_of(rank, OpOf(instance));
        const bool is_pair = plan::TraitsOf(first.kind).has_peer;
        const bool same_kind = is_pair ? ranks.front() != ranks.back() : first.kind == here.kind;
        if (same_kind && first.unit == here.unit && first.segment == here.segment &&
            first.micro_batch == here.micro_batch && first.dtype == here.dtype &&
            first.payload_bytes == here.payload_bytes) {
          continue;
        }
        findings_.push_back(
            {Harm::kMismatch, rank, OpOf(instance), OpOf(members.instances.front())});
      }
    }
  }
}

void ActionGraph::Index() {
  const size_t num_actions = static_cast<size_t>(FirstMeeting()) + meetings_.size();
  num_before_.assign(num_actions, 0);
  start_.assign(num_actions + 1, 0);
  for (const Edge& edge : edges_) {
    ++num_before_[static_cast<size_t>(edge.after)];
    ++start_[static_cast<size_t>(edge.before) + 1];
  }
  for (size_t action = 0; action < num_actions; ++action) start_[action + 1] += start_[action];
  after_.resize(edges_.size() + 1);  // one more, so that end() of the last action has an address
  std::vector<size_t> next = start_;
  for (const Edge& edge : edges_) {
    after_[next[static_cast<size_t>(edge.before)]++] = edge.after;
  }
}

std::vector<bool> ActionGraph::Ancestors(Action action) const {
  std::vector<std::vector<Action>> before(num_before_.size());
  for (const Edge& edge : edges_) before[static_cast<size_t>(edge.after)].push_back(edge.before);
  std::vector<bool> found(num_before_.size());
  std::vector<Action> pending = {action};
  found[static_cast<size_t>(action)] = true;
  while (!pending.empty()) {
    const Action next = pending.back();
    pending.pop_back();
    for (const Action earlier : before[static_cast<size_t>(next)]) {
      if (found[static_cast<size_t>(earlier)]) continue;
      found[static_cast<size_t>(earlier)] = true;
      pending.push_back(earlier);
    }
  }
  return found;
}

}  // namespace shardscope::oracle
