// CudaRunner against the fake CUDA runtime: for schedules of all kinds it gives the numbers of
// the CPU's executor, whatever the streams' speeds; without one of its waits it does not.
#include "engine/cuda/device/cuda_runner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "engine/cuda/device/device_toys_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/validate.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using plan::OpIndex;
using plan::Policy;
using plan::Schedule;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kLazy = 0;
constexpr uint64_t kEager = 1;

Schedule Build(const Policy& policy, int blocks = 3, bool root = true) {
  Result<Schedule> schedule =
      plan::BuildSchedule(plan::UniformModel(blocks, root, policy.units.stages), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *schedule : Schedule{};
}

Policy RandomPolicy(std::mt19937* random) {
  const auto below = [random](unsigned limit) { return static_cast<int>((*random)() % limit); };
  Policy policy;
  policy.preset = below(2) == 0 ? plan::Preset::kFsdp1 : plan::Preset::kFsdp2;
  const auto strategies = plan::Strategies();
  SetStrategy(strategies[static_cast<size_t>(below(static_cast<int>(strategies.size())))], &policy);
  policy.backward_prefetch = static_cast<plan::BackwardPrefetch>(below(3));
  policy.backward_depth = 1 + below(3);
  policy.forward_prefetch = below(4);
  policy.prefetch_limit = below(3);
  policy.run_ahead = below(3) - 1;
  const int ranks = 1 + below(3);
  policy.mesh = policy.strategy->MeshOf(policy.strategy->dimensions == 0 ? 1 : ranks);
  policy.units.stages = policy.mesh.size(plan::MeshDimension::kPipeline);
  if (policy.strategy->overlaps_stages) {
    policy.pipeline = static_cast<plan::PipelineSchedule>(below(3));
  }
  policy.num_communicators = 1 + below(2);
  policy.micro_batches = 1 + below(2);
  if (below(3) == 0) policy.param_dtype = plan::DType::kBf16;
  return policy;
}

std::vector<DeviceToyBodies::Persistent> OnCpu(const Schedule& schedule, int steps) {
  const executor::ToyRun run = executor::RunToy(schedule, {.steps = steps});
  std::vector<DeviceToyBodies::Persistent> persistent;
  for (size_t rank = 0; rank < run.statuses.size(); ++rank) {
    EXPECT_TRUE(run.statuses[rank].ok()) << run.statuses[rank].message();
    persistent.push_back(run.persistent[rank]);
  }
  return persistent;
}

// Nothing was broken, and nothing is left behind.
void ExpectClean(const DeviceToyRun& run) {
  for (const Status& status : run.statuses) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(run.violations, "");
  EXPECT_EQ(run.left.streams, 0);
  EXPECT_EQ(run.left.events, 0);
  EXPECT_EQ(run.left.allocations, 0);
}

// The promised order of an op's times, and of ops that wait for each other.
void ExpectOrders(const plan::Program& program, const executor::KeepingSink& sink) {
  ASSERT_EQ(sink.times().size(), program.ops.size());
  const auto predecessors = plan::AllPredecessors(program);
  for (const auto& [index, time] : sink.times()) {
    EXPECT_LE(time.issued_ns, time.ready_ns) << index;
    EXPECT_LE(time.ready_ns, time.started_ns) << index;
    EXPECT_LE(time.started_ns, time.ended_ns) << index;
    for (const OpIndex before : predecessors[static_cast<size_t>(index)]) {
      EXPECT_LE(sink.times().at(before).ended_ns, time.ready_ns) << before << " " << index;
    }
  }
}

// Every allocation is given back within the step.
void ExpectBalanced(const executor::KeepingSink& sink) {
  std::map<plan::BufferId, int64_t> live;
  for (const executor::KeepingSink::MemoryEvent& event : sink.memory()) {
    EXPECT_LE(event.issued_ns, event.executed_ns);
    live[event.buffer] += event.bytes;
  }
  for (const auto& [buffer, bytes] : live) EXPECT_EQ(bytes, 0) << buffer;
}

TEST(CudaRunner, GivesTheNumbersOfTheCpuForEverySchedule) {
  std::mt19937 random(5);
  for (int round = 0; round < 250; ++round) {
    const Policy policy = RandomPolicy(&random);
    const Schedule schedule = Build(policy, 1 + static_cast<int>(random() % 4), random() % 2 == 0);
    DeviceToyOptions options;
    options.memory = random() % 2 == 0 ? ToyMemory::kPool : ToyMemory::kCaching;
    options.fake.seed = random() % 6;
    SCOPED_TRACE(schedule.name + ", round " + std::to_string(round));
    const DeviceToyRun run = RunOnDevice(schedule, options);
    ExpectClean(run);
    EXPECT_EQ(run.persistent, OnCpu(schedule, options.steps));
    for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
      ExpectOrders(schedule.ProgramOf(rank), *run.sinks[static_cast<size_t>(rank)]);
      ExpectBalanced(*run.sinks[static_cast<size_t>(rank)]);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// Whether some choice of slow and fast streams shows that `schedule` is not `truth`.
bool IsSeenWrong(const Schedule& schedule, const std::vector<DeviceToyBodies::Persistent>& truth,
                 const DeviceToyOptions& base) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    DeviceToyOptions options = base;
    options.steps = 1;
    options.fake.seed = seed;
    const DeviceToyRun run = RunOnDevice(schedule, options);
    if (run.persistent != truth || !run.violations.empty()) return true;
  }
  return false;
}

// The tests above can fail: what the validator refuses, the device shows.
TEST(DeviceExecutorMutation, AScheduleWithoutANeededDependencyGivesOtherNumbers) {
  std::map<plan::DependencyKind, int> seen;
  std::map<plan::DependencyKind, int> refused;
  for (const plan::Preset preset : {plan::Preset::kFsdp1, plan::Preset::kFsdp2}) {
    Policy policy;
    policy.preset = preset;
    policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
    policy.prefetch_limit = preset == plan::Preset::kFsdp1 ? 2 : 0;
    const Schedule schedule = Build(policy, 2);
    const auto truth = OnCpu(schedule, 1);
    for (size_t op = 0; op < schedule.programs[0].ops.size(); ++op) {
      const auto& dependencies = schedule.programs[0].ops[op].dependencies;
      for (size_t i = 0; i < dependencies.size(); ++i) {
        Schedule mutated = schedule;
        auto& less = mutated.programs[0].ops[op].dependencies;
        less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
        if (!plan::FindRefusal(mutated)) continue;
        ++refused[dependencies[i].kind];
        const bool is_seen = IsSeenWrong(mutated, truth, {.memory = ToyMemory::kPool});
        seen[dependencies[i].kind] += is_seen ? 1 : 0;
      }
    }
  }
  for (const auto& [kind, count] : refused) {
    EXPECT_GT(count, 0);
    EXPECT_EQ(seen[kind], count) << plan::Name(kind);
  }
  EXPECT_GT(refused[plan::DependencyKind::kEvent], 5);
  EXPECT_GT(refused[plan::DependencyKind::kStream], 0);
}

// Every wait that the executor makes by itself, host ops and communicators among them: without one,
// either others imply it, or the numbers change.
TEST(DeviceExecutorMutation, MostWaitsAreNeeded) {
  Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  policy.micro_batches = 2;
  const Schedule schedule = Build(policy, 1);
  const auto truth = OnCpu(schedule, 1);
  DeviceToyOptions options{.steps = 1, .memory = ToyMemory::kPool};
  const int64_t num_waits = RunOnDevice(schedule, options).left.waits;
  int64_t num_seen = 0;
  for (int64_t wait = 0; wait < num_waits; ++wait) {
    options.fake.drop_wait = wait;
    num_seen += IsSeenWrong(schedule, truth, options) ? 1 : 0;
  }
  EXPECT_GT(num_waits, 40);
  EXPECT_GT(num_seen, num_waits / 2);
}

TEST(CudaRunner, ARankThatThrowsEndsTheOthers) {
  Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 3);
  const Schedule schedule = Build(policy);
  DeviceToyOptions options;
  options.on_run = [](const executor::OpContext& context) {
    if (context.rank == 1 && context.index == 9) throw std::runtime_error("on purpose");
  };
  const DeviceToyRun run = RunOnDevice(schedule, options);
  EXPECT_THAT(run.statuses[1].message(),
              AllOf(StartsWith("rank 1, step 0, op "), HasSubstr("(op 9): on purpose")));
  for (const size_t other : {0U, 2U}) EXPECT_EQ(run.statuses[other].message(), "aborted");
  EXPECT_EQ(run.violations, "");
  EXPECT_EQ(run.left.streams, 0);
  EXPECT_EQ(run.left.events, 0);
}

Policy OffloadedPolicy(plan::Offload offload, const char* strategy) {
  Policy policy;
  SetStrategy(strategy, &policy);
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  policy.offload = offload;
  return policy;
}

// The toys' numbers of what the host updates are right only if its work comes in stream order.
TEST(CudaRunner, TheHostWorksWhenItsStreamComesToIt) {
  for (const auto& [offload, strategy] :
       {std::pair{plan::Offload::kAll, "full"}, std::pair{plan::Offload::kOptimizer, "full"},
        std::pair{plan::Offload::kOptimizer, "zero2"}}) {
    for (const bool clips : {true, false}) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        Policy policy = OffloadedPolicy(offload, strategy);
        policy.update.clips = clips || offload != plan::Offload::kAll;
        policy.micro_batches = 1 + static_cast<int>(seed % 2);
        const Schedule schedule = Build(policy);
        SCOPED_TRACE(schedule.name + ", seed " + std::to_string(seed));
        DeviceToyOptions options{.memory = seed < 3 ? ToyMemory::kPool : ToyMemory::kCaching};
        options.fake.seed = seed;
        const DeviceToyRun run = RunOnDevice(schedule, options);
        ExpectClean(run);
        EXPECT_EQ(run.persistent, OnCpu(schedule, options.steps));
        ExpectOrders(schedule.ProgramOf(0), *run.sinks[0]);
        ExpectBalanced(*run.sinks[0]);
      }
    }
  }
}

TEST(CudaRunner, WhatTheHostsWorkThrowsFailsTheStep) {
  const Schedule schedule = Build(OffloadedPolicy(plan::Offload::kAll, "full"));
  DeviceToyOptions options{.steps = 1};
  options.on_run = [](const executor::OpContext& context) {
    const bool is_it = context.rank == 1 && context.op().kind == plan::OpKind::kGradNorm;
    if (is_it) throw std::runtime_error("on purpose");
  };
  const DeviceToyRun run = RunOnDevice(schedule, options);
  EXPECT_THAT(run.statuses[1].message(),
              AllOf(StartsWith("rank 1, step 0, op "), HasSubstr("on purpose")));
  EXPECT_EQ(run.violations, "");
  EXPECT_EQ(run.left.streams, 0);
}

// Steps of several Schedules on one executor: the streams of the first serve the others.
TEST(CudaRunner, StreamsOutliveSchedules) {
  const FakeOptions fake;
  TheFake().control->reset(&fake);
  Policy policy;
  const Schedule fsdp2 = Build(policy);
  policy.preset = plan::Preset::kFsdp1;
  const Schedule fsdp1 = Build(policy);
  DeviceExchange exchange;
  DeviceToyBodies bodies(&exchange, ToyMemory::kCaching);
  executor::KeepingSink sink;
  CudaRunner executor({.api = TheFake().api, .bodies = &bodies, .sink = &sink});
  std::vector<int64_t> streams;
  int64_t step = 0;
  for (const Schedule* schedule : {&fsdp2, &fsdp1, &fsdp2, &fsdp1}) {
    bodies.Prepare(*schedule, schedule->programs[0]);
    ASSERT_TRUE(executor.SetSchedule(*schedule).ok());
    ASSERT_TRUE(executor.RunStep(step++).ok());
    streams.push_back(TheFake().control->counts().streams);
  }
  EXPECT_LT(streams[0], streams[1]);  // other names
  EXPECT_EQ(streams[1], streams[2]);
  EXPECT_EQ(streams[1], streams[3]);
}

}  // namespace
}  // namespace shardscope::cuda
