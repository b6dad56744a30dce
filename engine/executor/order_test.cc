// Built schedules, on toy ranks: all promised orders hold in the recorded times, and no delay and
// no prefetch changes any result.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/executor/order_test_util.h"
#include "engine/executor/toy_bodies_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/time.h"

namespace shardscope::executor {
namespace {

using plan::Policy;
using plan::Preset;

plan::Schedule Build(const Policy& policy) {
  Result<plan::Schedule> schedule = plan::BuildSchedule(plan::UniformModel(3, true), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *schedule : plan::Schedule{};
}

// Sleeps between nothing and 300 us, differently for every op, rank and seed.
DelayHook RandomDelays(uint32_t seed) {
  return [seed](const OpContext& context) {
    std::seed_seq seeds = {seed, static_cast<uint32_t>(context.index),
                           static_cast<uint32_t>(context.rank),
                           static_cast<uint32_t>(context.step)};
    std::mt19937 random(seeds);
    const int64_t delay_ns = static_cast<int64_t>(random() % 4) * 100 * kNsPerUs;
    if (delay_ns > 0) SleepUntilNs(MonotonicNs() + delay_ns);
  };
}

std::vector<Policy> Policies() {
  std::vector<Policy> policies;
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    Policy base;
    base.preset = preset;
    base.mesh = plan::MeshOf(plan::MeshDimension::kShard, 3);
    policies.push_back(base);
    Policy none = base;
    none.backward_prefetch = plan::BackwardPrefetch::kNone;
    policies.push_back(none);
    Policy post = base;
    post.backward_prefetch = plan::BackwardPrefetch::kPost;
    policies.push_back(post);
    Policy deep = base;
    deep.backward_depth = 2;
    deep.forward_prefetch = 2;
    policies.push_back(deep);
    Policy waiting = base;
    waiting.run_ahead = 0;
    policies.push_back(waiting);
    Policy limited = base;
    limited.prefetch_limit = 2;
    policies.push_back(limited);
    Policy accumulating = base;
    accumulating.micro_batches = 2;
    accumulating.reshard_after_forward = false;
    accumulating.strategy = plan::FindStrategy("grad_op");
    policies.push_back(accumulating);
  }
  return policies;
}

class OrderTest : public testing::TestWithParam<size_t> {
 protected:
  const Policy policy_ = Policies()[GetParam()];
  const plan::Schedule schedule_ = Build(policy_);
};
INSTANTIATE_TEST_SUITE_P(Policies, OrderTest, testing::Range<size_t>(0, Policies().size()));

TEST_P(OrderTest, HoldsInTheRecordedTimes) {
  const ToyRun run = RunToy(schedule_, {.steps = 2, .delay_hook = RandomDelays(7)});
  for (size_t rank = 0; rank < run.sinks.size(); ++rank) {
    ASSERT_TRUE(run.statuses[rank].ok()) << run.statuses[rank].message();
    const plan::Program& program = schedule_.ProgramOf(static_cast<int>(rank));
    ExpectOrders(program, run.sinks[rank]->times());
    ExpectCauses(schedule_, program, run.sinks[rank]->times());
  }
}

TEST_P(OrderTest, ResultsDependOnNoDelayAndNoNumberOfSlots) {
  const ToyRun plain = RunToy(schedule_, {.steps = 2});
  for (const int slots : {1, 3}) {
    for (const uint32_t seed : {1U, 2U, 3U}) {
      const ToyRun delayed =
          RunToy(schedule_, {.steps = 2, .slots = slots, .delay_hook = RandomDelays(seed)});
      EXPECT_EQ(plain.persistent, delayed.persistent);
    }
  }
  EXPECT_NE(plain.persistent[0], plain.persistent[1]);
  EXPECT_NE(plain.persistent, RunToy(schedule_, {.steps = 1}).persistent);
}

// What a step allocates it frees, and both ledgers say so: bytes appear no earlier than the op's
// issue and in one place of the program's order.
TEST_P(OrderTest, MemoryIsReportedOncePerAllocationAndFree) {
  const ToyRun run = RunToy(schedule_, {.steps = 2});
  const plan::Program& program = schedule_.ProgramOf(1);
  std::map<plan::BufferId, int64_t> live;
  std::map<plan::BufferId, int> events;
  for (const KeepingSink::MemoryEvent& event : run.sinks[1]->memory()) {
    EXPECT_LE(event.issued_ns, event.executed_ns);
    EXPECT_EQ(std::abs(event.bytes), program.buffers[static_cast<size_t>(event.buffer)].bytes);
    live[event.buffer] += event.bytes;
    ++events[event.buffer];
  }
  for (size_t buffer = 0; buffer < program.buffers.size(); ++buffer) {
    const auto id = static_cast<plan::BufferId>(buffer);
    EXPECT_EQ(live[id], 0);
    EXPECT_EQ(events[id], program.buffers[buffer].persistent ? 0 : 2);
  }
}

// Schedules that do the same arithmetic give the same numbers, whatever they overlap.
TEST(Prefetch, ChangesNoResult) {
  for (const Preset preset : {Preset::kFsdp1, Preset::kFsdp2}) {
    Policy policy;
    policy.preset = preset;
    policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
    policy.backward_prefetch = plan::BackwardPrefetch::kNone;
    const ToyRun none = RunToy(Build(policy), {.steps = 2});
    policy.backward_prefetch = plan::BackwardPrefetch::kPre;
    policy.backward_depth = 3;
    policy.forward_prefetch = 3;
    const ToyRun deep = RunToy(Build(policy), {.steps = 2});
    EXPECT_EQ(none.persistent, deep.persistent);
    policy.run_ahead = 0;
    EXPECT_EQ(none.persistent, RunToy(Build(policy), {.steps = 2}).persistent);
  }
}

TEST(ComputeSlots, AreNeverExceededByAllRanksTogether) {
  Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 4);
  const plan::Schedule schedule = Build(policy);
  // The recorded intervals of all ranks: at most two compute ops at any moment.
  const ToyRun run = RunToy(schedule, {.slots = 2, .work_ns = kNsPerMs});
  std::vector<std::pair<int64_t, int>> changes;
  for (size_t rank = 0; rank < run.sinks.size(); ++rank) {
    ASSERT_TRUE(run.statuses[rank].ok()) << run.statuses[rank].message();
    for (const auto& [index, times] : run.sinks[rank]->times()) {
      const plan::Op& op =
          schedule.ProgramOf(static_cast<int>(rank)).ops[static_cast<size_t>(index)];
      const plan::Category category = plan::CategoryOf(op.kind);
      if (category != plan::Category::kCompute && category != plan::Category::kOptimizer) continue;
      if (op.kind == plan::OpKind::kReshard || op.kind == plan::OpKind::kRelease) continue;
      changes.emplace_back(times.started_ns, +1);
      changes.emplace_back(times.ended_ns, -1);
    }
  }
  ASSERT_FALSE(changes.empty());
  std::sort(changes.begin(), changes.end());  // at equal times, ends come first
  int running = 0;
  for (const auto& [time_ns, change] : changes) {
    running += change;
    EXPECT_LE(running, 2);
  }
}

}  // namespace
}  // namespace shardscope::executor
