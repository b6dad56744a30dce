#include "engine/simulate/simulate.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "engine/executor/cause.h"
#include "engine/executor/step_plan.h"
#include "trace/base/check.h"

namespace shardscope::simulate {
namespace {

using executor::OpTimes;
using plan::OpIndex;

// What is the same for all ranks that run a program.
struct ProgramPlan {
  executor::StepPlan step;
  std::vector<std::vector<OpIndex>> followers;  // by op: those that wait for it on their streams
};

struct OpState {
  size_t missing = 1;  // the issue and the ops waited for that are still to come
  bool is_done = false;
  executor::HostWait host_wait;  // the last one before the issue
  int64_t arrived_ns = 0;        // when it asked for its compute slot
  OpTimes times;
};

struct RankState {
  const plan::Program* program = nullptr;
  const ProgramPlan* plan = nullptr;
  std::vector<OpState> ops;
  OpIndex next = 0;                   // which the host turns to next, or waits to issue
  OpIndex host_target = plan::kNone;  // what the host waits for
  executor::HostWait last_host_wait;
};

struct OpOfRank {
  int rank = 0;
  OpIndex op = 0;
};

// Ends come first among the events of a moment: what waits for them finds them done, as does the
// host that comes to ask.
enum class EventKind : uint8_t { kEnd, kHost, kIssue, kArrival };

struct Event {
  int64_t time_ns = 0;
  EventKind kind = EventKind::kEnd;
  OpOfRank of;

  bool operator>(const Event& other) const {
    return std::tie(time_ns, kind, of.rank, of.op) >
           std::tie(other.time_ns, other.kind, other.of.rank, other.of.op);
  }
};

bool Meets(const plan::Op& op) {
  return op.communicator != plan::kNone || op.kind == plan::OpKind::kControl;
}

class Simulation {
 public:
  Simulation(const plan::Schedule& schedule, const std::vector<ProgramPlan>& plans,
             const StepInput& input)
      : schedule_(schedule), input_(input), free_slots_(input.compute_slots) {
    for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
      const auto program = static_cast<size_t>(schedule.program_of_rank[static_cast<size_t>(rank)]);
      RankState& state = ranks_.emplace_back();
      state.program = &schedule.programs[program];
      state.plan = &plans[program];
      state.ops.resize(state.program->ops.size());
      SHARDSCOPE_CHECK(input.costs[static_cast<size_t>(rank)].size() == state.ops.size());
      for (size_t op = 0; op < state.ops.size(); ++op) {
        state.ops[op].missing += state.plan->step.waits[op].size();
      }
      Add(input.start_ns[static_cast<size_t>(rank)], EventKind::kHost, {rank, 0});
    }
  }

  Result<StepTimes> Run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ns_ = event.time_ns;
      switch (event.kind) {
        case EventKind::kEnd:
          End(event.of);
          break;
        case EventKind::kHost:
          TurnToNext(event.of.rank);
          break;
        case EventKind::kIssue:
          Issue(event.of);
          break;
        case EventKind::kArrival:
          Arrive(event.of);
          break;
      }
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      SHARDSCOPE_RETURN_IF_ERROR(CheckAllDone(rank));
    }
    return Times();
  }

 private:
  void Add(int64_t time_ns, EventKind kind, OpOfRank of) { events_.push({time_ns, kind, of}); }

  RankState& Rank(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  OpState& State(OpOfRank of) { return Rank(of.rank).ops[static_cast<size_t>(of.op)]; }
  const plan::Op& OpOf(OpOfRank of) {
    return Rank(of.rank).program->ops[static_cast<size_t>(of.op)];
  }
  const OpCost& CostOf(OpOfRank of) const {
    return input_.costs[static_cast<size_t>(of.rank)][static_cast<size_t>(of.op)];
  }
  bool TakesSlot(OpOfRank of) {
    return input_.compute_slots > 0 &&
           Rank(of.rank).plan->step.takes_slot[static_cast<size_t>(of.op)];
  }

  // The host waits for what its next op names, one after another, then issues it.
  void TurnToNext(int rank) {
    RankState& state = Rank(rank);
    const OpOfRank of = {rank, state.next};
    if (static_cast<size_t>(of.op) == state.ops.size()) return;
    for (const plan::Dependency& dependency : OpOf(of).dependencies) {
      if (dependency.kind != plan::DependencyKind::kHost) continue;
      if (State({rank, dependency.target}).is_done) continue;
      state.host_target = dependency.target;
      return;
    }
    Add(now_ns_ + CostOf(of).issue_ns, EventKind::kIssue, of);
  }

  void Issue(OpOfRank of) {
    RankState& state = Rank(of.rank);
    State(of).times.issued_ns = now_ns_;
    State(of).host_wait = state.last_host_wait;
    ++state.next;
    // The host's own ops keep it until they end.
    if (OpOf(of).stream != 0) LeaveHost(of);
    CountDown(of);
  }

  void LeaveHost(OpOfRank of) {
    Add(now_ns_ + CostOf(of).return_ns, EventKind::kHost, {of.rank, Rank(of.rank).next});
  }

  // One thing less that the op waits for. A stream is in order because each op waits for the one
  // before it.
  void CountDown(OpOfRank of) {
    if (--State(of).missing > 0) return;
    const int64_t launched_ns = State(of).times.issued_ns + CostOf(of).latency_ns;
    Add(std::max(now_ns_, launched_ns), EventKind::kArrival, of);
  }

  void Arrive(OpOfRank of) {
    State(of).arrived_ns = now_ns_;
    if (!TakesSlot(of)) {
      Start(of);
    } else if (free_slots_ > 0) {
      --free_slots_;
      Start(of);
    } else {
      waiting_.push_back(of);
    }
  }

  void Start(OpOfRank of) {
    OpTimes& times = State(of).times;
    times.started_ns = now_ns_;
    times.slot_wait_ns = now_ns_ - State(of).arrived_ns;
    if (!Meets(OpOf(of))) {
      Add(now_ns_ + CostOf(of).duration_ns, EventKind::kEnd, of);
      return;
    }
    // Queues let a rank come to one meeting at a time.
    const bool is_control = OpOf(of).communicator == plan::kNone;
    const plan::Meeting meeting =
        is_control ? plan::Meeting() : plan::MeetingOf(schedule_, of.rank, OpOf(of));
    int size = schedule_.num_ranks();
    if (!is_control) size = meeting.is_pair() ? 2 : schedule_.GroupSize(meeting.communicator);
    std::vector<OpOfRank>& present = meetings_[meeting];
    present.push_back(of);
    if (present.size() < static_cast<size_t>(size)) return;
    for (const OpOfRank one : present) {
      if (OpOf(one).kind == plan::OpKind::kReceive) State(one).times.started_ns = now_ns_;
      Add(now_ns_ + CostOf(one).duration_ns, EventKind::kEnd, one);
    }
    present.clear();
  }

  void End(OpOfRank of) {
    RankState& state = Rank(of.rank);
    State(of).times.ended_ns = now_ns_;
    State(of).is_done = true;
    if (TakesSlot(of)) GiveSlotBack();
    for (const OpIndex follower : state.plan->followers[static_cast<size_t>(of.op)]) {
      CountDown({of.rank, follower});
    }
    if (OpOf(of).stream == 0) LeaveHost(of);
    if (state.host_target == of.op) {
      state.host_target = plan::kNone;
      state.last_host_wait = {of.op, now_ns_};
      TurnToNext(of.rank);
    }
  }

  void GiveSlotBack() {
    if (waiting_.empty()) {
      ++free_slots_;
      return;
    }
    const OpOfRank first = waiting_.front();
    waiting_.pop_front();
    Start(first);
  }

  // Programs wait for earlier ops only, so that nothing but a meeting can last for ever.
  Status CheckAllDone(int rank) {
    for (const OpState& state : Rank(rank).ops) {
      if (state.is_done) continue;
      const OpOfRank of = {rank, static_cast<OpIndex>(&state - Rank(rank).ops.data())};
      return Status::Error("rank " + std::to_string(rank) + " waits for ever at '" +
                           plan::OpName(schedule_, OpOf(of)) + "' (op " + std::to_string(of.op) +
                           ") of schedule '" + schedule_.name +
                           "': not all ranks meet there; check it with `shardscope plan --check`");
    }
    return Status::Ok();
  }

  StepTimes Times() {
    StepTimes all;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankState& state = ranks_[rank];
      std::vector<OpTimes>& times = all.emplace_back();
      for (size_t op = 0; op < state.ops.size(); ++op) {
        times.push_back(state.ops[op].times);
        executor::FindCause(
            state.plan->step.waits[op], state.ops[op].host_wait, input_.start_ns[rank],
            [&state](OpIndex before) {
              return state.ops[static_cast<size_t>(before)].times.ended_ns;
            },
            &times.back());
      }
    }
    return all;
  }

  const plan::Schedule& schedule_;
  const StepInput& input_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t now_ns_ = 0;
  std::vector<RankState> ranks_;
  int free_slots_;
  std::deque<OpOfRank> waiting_;  // for a slot, in the order in which they came
  std::map<plan::Meeting, std::vector<OpOfRank>> meetings_;  // who came; the control op's has none
};

Result<ProgramPlan> MakeProgramPlan(const plan::Schedule& schedule, const plan::Program& program) {
  Result<executor::StepPlan> step = executor::MakeStepPlan(schedule, program);
  if (!step.ok()) return step.status();
  ProgramPlan plan;
  plan.step = std::move(step).value();
  plan.followers.resize(program.ops.size());
  for (size_t op = 0; op < program.ops.size(); ++op) {
    for (const executor::Wait& wait : plan.step.waits[op]) {
      plan.followers[static_cast<size_t>(wait.op)].push_back(static_cast<OpIndex>(op));
    }
  }
  return plan;
}

}  // namespace

Result<StepTimes> SimulateStep(const plan::Schedule& schedule, const StepInput& input) {
  const auto num_ranks = static_cast<size_t>(schedule.num_ranks());
  SHARDSCOPE_CHECK(input.costs.size() == num_ranks && input.start_ns.size() == num_ranks);
  std::vector<ProgramPlan> plans;
  for (const plan::Program& program : schedule.programs) {
    Result<ProgramPlan> plan = MakeProgramPlan(schedule, program);
    if (!plan.ok()) return plan.status();
    plans.push_back(std::move(plan).value());
  }
  return Simulation(schedule, plans, input).Run();
}

}  // namespace shardscope::simulate
