// ActionGraph: everything that must happen in a step, on all ranks, and what must come before what.
// Every order of its actions that respects the edges is an interleaving that streams, events, host
// waits and communicators allow. Written from the contract in engine/plan/op.h alone: it shares no
// code with the validator.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "engine/plan/schedule.h"
#include "tests/oracle/finding.h"

namespace shardscope::oracle {

using Action = int32_t;

// An op on a rank: the host issues it, its stream starts it, it ends. Between start and end
// anything else may happen.
enum class Stage : uint8_t { kIssue, kStart, kEnd };

// One collective of one communicator, on all ranks.
struct Meeting {
  std::vector<int32_t> instances;  // by rank
};

class ActionGraph {
 public:
  // `schedule` must outlive the graph.
  explicit ActionGraph(const plan::Schedule& schedule);

  // Ops are numbered over all ranks, rank by rank in host order.
  int32_t num_instances() const { return first_of_rank_.back(); }
  int32_t InstanceOf(int rank, plan::OpIndex op) const {
    return first_of_rank_[static_cast<size_t>(rank)] + op;
  }
  int RankOf(int32_t instance) const;
  plan::OpIndex OpOf(int32_t instance) const {
    return instance - first_of_rank_[static_cast<size_t>(RankOf(instance))];
  }

  // The actions: three an instance, then one a meeting, which happens between the starts and the
  // ends of its collectives.
  Action ActionOf(int32_t instance, Stage stage) const {
    return 3 * instance + static_cast<int32_t>(stage);
  }
  Action FirstMeeting() const { return 3 * num_instances(); }
  Action num_actions() const { return static_cast<Action>(num_before_.size()); }
  const std::vector<Meeting>& meetings() const { return meetings_; }

  const std::vector<int32_t>& num_before() const {
    return num_before_;
  }  // by action: edges into it
  // The actions that wait for `action`.
  const Action* begin(Action action) const { return &after_[Start(action)]; }
  const Action* end(Action action) const { return &after_[Start(action + 1)]; }

  // By action: whether it must have happened before `action`; itself included.
  std::vector<bool> Ancestors(Action action) const;

  // What is wrong before anything runs: waits and communicators that cannot be, meetings of
  // different collectives, collectives without a partner.
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  struct Edge {
    Action before;
    Action after;
  };
  size_t Start(Action action) const { return start_[static_cast<size_t>(action)]; }
  void AddEdge(Action before, Action after) { edges_.push_back({before, after}); }
  bool StaysWithin(const plan::Op& op) const;
  void AddRank(int rank);
  // What the ranks of one group issue on its communicator, by member.
  struct GroupQueues {
    std::vector<std::vector<int32_t>> queues;
    std::vector<int> ranks;
  };
  std::vector<GroupQueues> Groups() const;
  void AddPairs(const GroupQueues& members, plan::CommunicatorIndex communicator,
                std::vector<GroupQueues>* all) const;
  void AddMeetings();
  void Index();

  const plan::Schedule& schedule_;
  std::vector<int32_t> first_of_rank_;  // and the number of instances at the end
  std::vector<std::vector<std::vector<int32_t>>> collectives_;  // by communicator, by rank
  // Sends and receives: by communicator, rank, place of the peer, whether they receive.
  std::map<std::tuple<int32_t, int, int32_t, bool>, std::vector<int32_t>> exchanges_;
  std::vector<Meeting> meetings_;
  std::vector<Edge> edges_;
  std::vector<int32_t> num_before_;
  std::vector<size_t> start_;  // by action, into after_
  std::vector<Action> after_;
  std::vector<Finding> findings_;
};

}  // namespace shardscope::oracle
