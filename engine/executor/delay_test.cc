// Delays before ops change no bit of the result: many schedules on toy ranks, whose every op mixes
// what it reads into what it writes, and whose collectives mix all ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <random>

#include "engine/executor/stillness_test_util.h"
#include "engine/executor/toy_bodies_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::executor {
namespace {

using plan::Policy;

// Numbers that depend on nothing but the seeds given.
class Dice {
 public:
  explicit Dice(std::initializer_list<uint32_t> seeds) {
    std::seed_seq sequence(seeds);
    random_.seed(sequence);
  }
  // From 0 to sides - 1.
  int Roll(int sides) { return static_cast<int>(random_() % static_cast<uint32_t>(sides)); }

 private:
  std::mt19937 random_;
};

Policy RandomPolicy(Dice* dice) {
  Policy policy;
  policy.preset = static_cast<plan::Preset>(dice->Roll(2));
  const auto strategies = plan::Strategies();
  SetStrategy(strategies[static_cast<size_t>(dice->Roll(static_cast<int>(strategies.size())))],
              &policy);
  policy.backward_prefetch = static_cast<plan::BackwardPrefetch>(dice->Roll(3));
  policy.backward_depth = 1 + dice->Roll(3);
  policy.forward_prefetch = dice->Roll(4);
  policy.prefetch_limit = dice->Roll(4);
  policy.run_ahead = dice->Roll(4) - 1;
  const int ranks = 1 + dice->Roll(4);
  policy.mesh = policy.strategy->MeshOf(policy.strategy->dimensions == 0 ? 1 : ranks);
  policy.units.stages = policy.mesh.size(plan::MeshDimension::kPipeline);
  if (policy.strategy->overlaps_stages) {
    policy.pipeline = static_cast<plan::PipelineSchedule>(dice->Roll(3));
  }
  policy.micro_batches = 1 + dice->Roll(2);
  if (dice->Roll(2) == 1) policy.param_dtype = plan::DType::kBf16;
  return policy;
}

plan::Schedule RandomSchedule(Dice* dice) {
  const Policy policy = RandomPolicy(dice);
  const plan::ModelDescription model =
      plan::UniformModel(1 + dice->Roll(4), dice->Roll(2) == 1, policy.units.stages);
  const auto schedule = plan::BuildSchedule(model, policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *schedule : plan::Schedule{};
}

Dice DiceOf(uint32_t seed, const OpContext& context) {
  return Dice{seed, static_cast<uint32_t>(context.index), static_cast<uint32_t>(context.rank),
              static_cast<uint32_t>(context.step)};
}

// Up to 0.2 ms before one op in four of every rank.
DelayHook RandomSleeps(uint32_t seed) {
  return [seed](const OpContext& context) {
    Dice dice = DiceOf(seed, context);
    if (dice.Roll(4) != 0) return;
    SleepUntilNs(MonotonicNs() + dice.Roll(200) * kNsPerUs);
  };
}

// The longest delay there is: until all other ranks and streams have done whatever they can without
// this op. One op at a time, chosen at random, because two would wait for each other to hold still.
class LongestDelays {
 public:
  explicit LongestDelays(uint32_t seed) : seed_(seed) {}

  void operator()(const OpContext& context) {
    if (DiceOf(seed_, context).Roll(12) != 0) return;
    if (!mutex_.try_lock()) return;
    const MutexLock only_one(mutex_, std::adopt_lock);
    WaitUntilNothingMoves();
    ++num_held;
  }

  std::atomic<int> num_held{0};

 private:
  const uint32_t seed_;
  Mutex mutex_;
};

constexpr uint32_t kSeedsOfASchedule = 2;

// SHARDSCOPE_TEST_SCALE is a factor for builds in which everything costs more (sanitizers).
uint32_t NumSchedules() {
  const char* scale = std::getenv("SHARDSCOPE_TEST_SCALE");
  return static_cast<uint32_t>(40 * (scale == nullptr ? 1 : std::atof(scale)));
}

TEST(Delays, AnywhereOnAnyRankChangeNothing) {
  const uint32_t num_schedules = NumSchedules();
  int num_held = 0;
  for (uint32_t number = 0; number < num_schedules && !HasFailure(); ++number) {
    Dice dice{number};
    const plan::Schedule schedule = RandomSchedule(&dice);
    const ToyRun plain = RunToy(schedule, {.steps = 2});
    for (const Status& status : plain.statuses) EXPECT_TRUE(status.ok()) << status.message();
    for (uint32_t seed = 0; seed < kSeedsOfASchedule; ++seed) {
      const int slots = 1 + static_cast<int>(seed);
      EXPECT_EQ(plain.persistent,
                RunToy(schedule, {.steps = 2, .slots = slots, .delay_hook = RandomSleeps(seed)})
                    .persistent)
          << schedule.name << ", sleeps of seed " << seed;
      LongestDelays delays(seed);
      EXPECT_EQ(
          plain.persistent,
          RunToy(schedule, {.steps = 2, .slots = slots, .delay_hook = std::ref(delays)}).persistent)
          << schedule.name << ", longest delays of seed " << seed;
      num_held += delays.num_held;
    }
  }
  EXPECT_GT(num_held, static_cast<int>(num_schedules));
  std::cout << num_schedules << " schedules, " << num_held << " ops held until nothing moved\n";
}

// The test of the test: copies that do not wait for their all-gather give another result, or read
// what is not there, under some delay.
TEST(Delays, ShowAMissingWait) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a race on purpose";
#endif
  Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  const auto built = plan::BuildSchedule(plan::UniformModel(2, true), policy);
  ASSERT_TRUE(built.ok()) << built.message();
  const ToyRun plain = RunToy(*built, {.steps = 2});
  plan::Schedule broken = *built;
  int num_dropped = 0;
  for (plan::Op& op : broken.programs.front().ops) {
    if (op.kind != plan::OpKind::kCopyOut) continue;
    op.dependencies.clear();  // of its all-gather
    ++num_dropped;
  }
  ASSERT_GT(num_dropped, 0);
  bool shown = false;
  for (uint32_t seed = 0; seed < 50 && !shown; ++seed) {
    LongestDelays delays(seed);
    shown = RunToy(broken, {.steps = 2, .slots = 4, .delay_hook = std::ref(delays)}).persistent !=
            plain.persistent;
  }
  EXPECT_TRUE(shown);
}

}  // namespace
}  // namespace shardscope::executor
