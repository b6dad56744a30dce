// Random schedules with random durations: virtual time keeps what the executor promises, and the
// executor itself runs the same schedules in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "engine/executor/order_test_util.h"
#include "engine/executor/toy_bodies_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "engine/simulate/simulate.h"

namespace shardscope::simulate {
namespace {

using executor::OpTimes;
using plan::OpIndex;

constexpr int64_t kStartNs = 1'000'000;

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  // From 0 to below `bound`.
  int32_t Below(int32_t bound) {
    return static_cast<int32_t>(random_() % static_cast<uint32_t>(bound));
  }
  bool OneIn(int32_t many) { return Below(many) == 0; }

 private:
  std::mt19937 random_;
};

// Two to four ranks with one program of anything on any stream, without buffers.
plan::Schedule AnySchedule(Random* random) {
  plan::Schedule schedule;
  schedule.name = "random";
  schedule.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2 + random->Below(3));
  schedule.program_of_rank.assign(static_cast<size_t>(schedule.num_ranks()), 0);
  schedule.communicators = {{"shard"}, {"reduce"}};
  schedule.streams = {{"host", plan::StreamRole::kHost},
                      {"compute", plan::StreamRole::kCompute},
                      {"copy", plan::StreamRole::kCopy},
                      {"all_gather", plan::StreamRole::kAllGather},
                      {"reduce_scatter", plan::StreamRole::kReduceScatter}};
  plan::Program program;
  for (OpIndex index = 0; index < 60; ++index) {
    plan::Op op;
    constexpr std::array kKinds = {plan::OpKind::kForward,   plan::OpKind::kForward,
                                   plan::OpKind::kOptimizer, plan::OpKind::kCopyIn,
                                   plan::OpKind::kAllGather, plan::OpKind::kReduceScatter,
                                   plan::OpKind::kLoadBatch, plan::OpKind::kControl};
    op.kind = kKinds[static_cast<size_t>(random->Below(kKinds.size()))];
    op.stream = 1 + random->Below(4);
    if (op.kind == plan::OpKind::kLoadBatch || op.kind == plan::OpKind::kControl) op.stream = 0;
    if (plan::CategoryOf(op.kind) == plan::Category::kCommunication) {
      op.communicator = random->Below(2);
    }
    while (index > 0 && random->OneIn(2)) {
      constexpr std::array kWaits = {plan::DependencyKind::kEvent, plan::DependencyKind::kEvent,
                                     plan::DependencyKind::kStream, plan::DependencyKind::kHost};
      const plan::DependencyKind kind = kWaits[static_cast<size_t>(random->Below(4))];
      op.dependencies.push_back(
          {kind, kind == plan::DependencyKind::kStream ? random->Below(5) : random->Below(index)});
    }
    program.ops.push_back(op);
  }
  schedule.programs.push_back(std::move(program));
  return schedule;
}

plan::Schedule FsdpSchedule(Random* random) {
  plan::Policy policy;
  policy.preset = random->OneIn(2) ? plan::Preset::kFsdp1 : plan::Preset::kFsdp2;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2 + random->Below(2));
  policy.backward_prefetch = static_cast<plan::BackwardPrefetch>(random->Below(3));
  policy.backward_depth = 1 + random->Below(3);
  policy.forward_prefetch = random->Below(4);
  policy.prefetch_limit = random->OneIn(2) ? 2 : 0;
  policy.run_ahead = random->Below(4) - 1;
  policy.num_communicators = 1 + random->Below(2);
  policy.micro_batches = 1 + random->Below(2);
  Result<plan::Schedule> schedule =
      plan::BuildSchedule(plan::UniformModel(3, random->OneIn(2)), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? std::move(schedule).value() : plan::Schedule();
}

StepInput AnyInput(const plan::Schedule& schedule, Random* random) {
  StepInput input;
  input.compute_slots = random->Below(4);
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    input.start_ns.push_back(kStartNs + random->Below(200));
    std::vector<OpCost>& costs = input.costs.emplace_back();
    for (size_t op = 0; op < schedule.ProgramOf(rank).ops.size(); ++op) {
      // Much of it nothing, so that many things come at one moment.
      const auto some = [&](int32_t most) { return random->OneIn(3) ? 0 : random->Below(most); };
      costs.push_back({some(5), some(3), some(10), some(100)});
    }
  }
  return input;
}

using TimesOfRank = std::map<OpIndex, OpTimes>;

TimesOfRank ByOp(const std::vector<OpTimes>& times) {
  TimesOfRank by_op;
  for (size_t op = 0; op < times.size(); ++op) by_op[static_cast<OpIndex>(op)] = times[op];
  return by_op;
}

// The host goes on as soon as it may.
void ExpectHost(const plan::Program& program, const std::vector<OpCost>& costs, int64_t host_ns,
                const std::vector<OpTimes>& times) {
  for (size_t index = 0; index < times.size(); ++index) {
    const plan::Op& op = program.ops[index];
    for (const plan::Dependency& wait : op.dependencies) {
      if (wait.kind != plan::DependencyKind::kHost) continue;
      host_ns = std::max(host_ns, times[static_cast<size_t>(wait.target)].ended_ns);
    }
    EXPECT_EQ(times[index].issued_ns, host_ns + costs[index].issue_ns) << index;
    host_ns =
        (op.stream == 0 ? times[index].ended_ns : times[index].issued_ns) + costs[index].return_ns;
  }
}

// An op starts as soon as it may and takes as long as it was given.
void ExpectDurations(const plan::Schedule& schedule, const StepInput& input,
                     const StepTimes& times) {
  for (size_t rank = 0; rank < times.size(); ++rank) {
    const plan::Program& program = schedule.ProgramOf(static_cast<int>(rank));
    for (size_t index = 0; index < program.ops.size(); ++index) {
      const OpTimes& time = times[rank][index];
      const OpCost& cost = input.costs[rank][index];
      EXPECT_EQ(time.started_ns,
                std::max(time.ready_ns, time.issued_ns + cost.latency_ns) + time.slot_wait_ns);
      int64_t from_ns = time.started_ns;
      const plan::Op& op = program.ops[index];
      if (op.communicator != plan::kNone || op.kind == plan::OpKind::kControl) {
        for (const auto& other : times) from_ns = std::max(from_ns, other[index].started_ns);
      }
      EXPECT_EQ(time.ended_ns, from_ns + cost.duration_ns) << rank << " " << index;
    }
  }
}

// Slots go to those who wait for them in their order, and none is free while a rank waits.
void ExpectSlots(const plan::Schedule& schedule, int slots, const StepTimes& times) {
  std::vector<const OpTimes*> users;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    const plan::Program& program = schedule.ProgramOf(static_cast<int>(rank));
    const Result<executor::StepPlan> plan = executor::MakeStepPlan(schedule, program);
    for (size_t index = 0; index < times[rank].size(); ++index) {
      if (slots > 0 && plan->takes_slot[index]) {
        users.push_back(&times[rank][index]);
      } else {
        EXPECT_EQ(times[rank][index].slot_wait_ns, 0);
      }
    }
  }
  const auto arrived_ns = [](const OpTimes& one) { return one.started_ns - one.slot_wait_ns; };
  for (const OpTimes* one : users) {
    int at_start = 0;
    int while_waiting = 0;
    for (const OpTimes* other : users) {
      at_start += other->started_ns <= one->started_ns && one->started_ns < other->ended_ns;
      while_waiting += other->started_ns < one->started_ns && one->started_ns <= other->ended_ns;
      if (arrived_ns(*other) < arrived_ns(*one)) {
        EXPECT_LE(other->started_ns, one->started_ns);
      }
    }
    EXPECT_LE(at_start, slots);
    if (one->slot_wait_ns > 0) {
      EXPECT_GE(while_waiting, slots);
    }
  }
}

void ExpectAll(const plan::Schedule& schedule, const StepInput& input) {
  const Result<StepTimes> times = SimulateStep(schedule, input);
  ASSERT_TRUE(times.ok()) << times.message();
  for (size_t rank = 0; rank < times->size(); ++rank) {
    const plan::Program& program = schedule.ProgramOf(static_cast<int>(rank));
    executor::ExpectOrders(program, ByOp((*times)[rank]));
    executor::ExpectCauses(schedule, program, ByOp((*times)[rank]));
    ExpectHost(program, input.costs[rank], input.start_ns[rank], (*times)[rank]);
  }
  ExpectDurations(schedule, input, *times);
  ExpectSlots(schedule, input.compute_slots, *times);
}

TEST(SimulatedOrder, IsWhatTheExecutorPromises) {
  for (uint32_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::Schedule schedule = random.OneIn(3) ? FsdpSchedule(&random) : AnySchedule(&random);
    ExpectAll(schedule, AnyInput(schedule, &random));
  }
}

// The ops that hold on `place_of`'s places, in the order in which they started there.
template <typename PlaceOf>
std::map<int32_t, std::vector<OpIndex>> OrderAt(const plan::Program& program,
                                                const TimesOfRank& times, const PlaceOf& place_of) {
  std::vector<OpIndex> order;
  for (const auto& [index, time] : times) order.push_back(index);
  std::stable_sort(order.begin(), order.end(), [&](OpIndex a, OpIndex b) {
    return std::pair(times.at(a).started_ns, times.at(a).ended_ns) <
           std::pair(times.at(b).started_ns, times.at(b).ended_ns);
  });
  std::map<int32_t, std::vector<OpIndex>> order_at;
  for (const OpIndex index : order) {
    order_at[place_of(program.ops[static_cast<size_t>(index)])].push_back(index);
  }
  order_at.erase(plan::kNone);
  return order_at;
}

TEST(SimulatedOrder, IsTheExecutorsOnEveryStreamAndCommunicator) {
  for (uint32_t seed = 0; seed < 24 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::Schedule schedule = random.OneIn(2) ? FsdpSchedule(&random) : AnySchedule(&random);
    const Result<StepTimes> times = SimulateStep(schedule, AnyInput(schedule, &random));
    ASSERT_TRUE(times.ok()) << times.message();
    const executor::ToyRun run = executor::RunToy(
        schedule, {.slots = 1 + random.Below(3), .work_ns = random.Below(2) * 50'000});
    for (size_t rank = 0; rank < run.sinks.size(); ++rank) {
      ASSERT_TRUE(run.statuses[rank].ok()) << run.statuses[rank].message();
      const plan::Program& program = schedule.ProgramOf(static_cast<int>(rank));
      const TimesOfRank& executed = run.sinks[rank]->times();
      const TimesOfRank simulated = ByOp((*times)[rank]);
      executor::ExpectOrders(program, executed);
      executor::ExpectCauses(schedule, program, executed);
      const auto stream = [](const plan::Op& op) { return op.stream; };
      EXPECT_EQ(OrderAt(program, simulated, stream), OrderAt(program, executed, stream));
      const auto communicator = [](const plan::Op& op) { return op.communicator; };
      EXPECT_EQ(OrderAt(program, simulated, communicator),
                OrderAt(program, executed, communicator));
    }
  }
}

}  // namespace
}  // namespace shardscope::simulate
