// Offload with the bodies for a device, on the CPU, and the host's work as a GPU's runner is given
// it: against the unsharded reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "engine/cuda/runtime/cpu_as_gpu_test_util.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/ranks/frozen_test_util.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using plan::Offload;

struct OffloadCase {
  const char* strategy;
  int ranks;
  Offload offload;
  plan::Preset preset = plan::Preset::kFsdp2;
  int stages = 0;
};

runtime::TestRun OffloadRun(const OffloadCase& tested) {
  runtime::TestRun run;
  run.model.dtype = plan::DType::kFp64;
  run.training.num_ranks = tested.ranks;
  run.training.micro_batches = 2;
  run.training.steps = 3;
  SetStrategy(tested.strategy, &run.policy);
  run.policy.preset = tested.preset;
  run.policy.offload = tested.offload;
  run.stages = tested.stages;
  return run;
}

// The host updates in the wide type: what differs is the order in which the model adds.
void ExpectAsReference(const runtime::TestRun& run, const runtime::TestResult& trained) {
  const runtime::TestResult expected = runtime::TrainReference(run);
  ASSERT_EQ(trained.losses.size(), expected.losses.size());
  EXPECT_LE(runtime::LargestDifference(trained.parameters, expected.parameters), 1e-9);
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(trained.losses[step], expected.losses[step], 1e-9 * expected.losses[step]);
    EXPECT_NEAR(trained.norms[step], expected.norms[step], 1e-9 * expected.norms[step]);
  }
}

class DeviceOffloadTest : public testing::TestWithParam<OffloadCase> {};

INSTANTIATE_TEST_SUITE_P(
    Strategies, DeviceOffloadTest,
    testing::Values(OffloadCase{"full", 2, Offload::kAll},
                    OffloadCase{"full", 3, Offload::kAll, plan::Preset::kFsdp1},
                    OffloadCase{"full", 3, Offload::kOptimizer},
                    OffloadCase{"grad_op", 2, Offload::kAll},
                    OffloadCase{"hybrid", 4, Offload::kAll},
                    OffloadCase{"full", 4, Offload::kAll, plan::Preset::kFsdp2, 2},
                    OffloadCase{"zero1", 2, Offload::kOptimizer},
                    OffloadCase{"zero2", 3, Offload::kOptimizer},
                    OffloadCase{"zero3", 2, Offload::kAll}),
    [](const testing::TestParamInfo<OffloadCase>& instance) {
      const OffloadCase& tested = instance.param;
      return std::string(tested.strategy) + std::to_string(tested.ranks) + "preset" +
             std::to_string(static_cast<int>(tested.preset)) + "stages" +
             std::to_string(tested.stages) +
             (tested.offload == Offload::kAll ? "all" : "optimizer");
    });

TEST_P(DeviceOffloadTest, Fp64EqualsTheReference) {
  runtime::TestRun run = OffloadRun(GetParam());
  run.jitter = true;
  ExpectAsReference(run, TrainOnDevice(run));
  ExpectAsReference(run, TrainOnDevice(run, nullptr, /*uses_pool=*/true));
}

TEST_P(DeviceOffloadTest, GoesWithAdapters) {
  const OffloadCase& tested = GetParam();
  for (const runtime::Trains trains : {runtime::Trains::kAdapters, runtime::Trains::kHead}) {
    runtime::TestRun run = runtime::FrozenRun({.strategy = tested.strategy,
                                               .ranks = tested.ranks,
                                               .preset = tested.preset,
                                               .stages = tested.stages},
                                              trains);
    run.policy.offload = tested.offload;
    ExpectFrozen(run, TrainOnDevice(run), {.parameters = 1e-8, .scalars = 1e-9});
  }
}

TEST(DeviceOffload, UpdatesEarlyWithoutClippingAndGoesWithAScaler) {
  runtime::TestRun run = OffloadRun({"full", 2, Offload::kAll});
  run.training.clip = 0;
  run.policy.update.clips = false;
  ExpectAsReference(run, TrainOnDevice(run));
  run = OffloadRun({"full", 2, Offload::kOptimizer});
  run.training.scaler.is_on = true;
  ExpectAsReference(run, TrainOnDevice(run));
}

TEST(DeviceOffload, GoesWithTensorRanks) {
  for (const Offload offload : {Offload::kAll, Offload::kOptimizer}) {
    runtime::TestRun run = OffloadRun({"full", 4, offload});
    run.model.heads = 4;
    run.tensor = 2;
    ExpectAsReference(run, TrainOnDevice(run));
  }
}

// Which ops are the host's.
TEST(DeviceOffload, TheHostsWorkIsThatOfTheStreamOnWhichItUpdates) {
  const runtime::TestRun run = OffloadRun({"full", 1, Offload::kAll});
  const auto schedule = plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  runtime::NullSink sink;
  CpuAsGpu device(run.model);
  auto made = runtime::Ranks::Make(runtime::JobOf(run),
                                   transport::MakeSharedMemoryTransport(1, 60 * kNsPerSecond),
                                   &sink, &device);
  ASSERT_TRUE(made.ok()) << made.message();
  ASSERT_TRUE((*made)->SetSchedule(0, *schedule).ok());
  const plan::Program& program = schedule->ProgramOf(0);
  int num_works = 0;
  for (plan::OpIndex index = 0; index < std::ssize(program.ops); ++index) {
    const executor::OpContext context = {
        .schedule = &*schedule, .program = &program, .index = index};
    const plan::Op& op = context.op();
    const bool is_hosts =
        schedule->streams[static_cast<size_t>(op.stream)].role == plan::StreamRole::kHostOptimizer;
    EXPECT_EQ((*made)->work(0).HostWork(context) != nullptr, is_hosts);
    if (op.kind == plan::OpKind::kOptimizer || op.kind == plan::OpKind::kGradNorm) {
      EXPECT_TRUE(is_hosts);
    }
    EXPECT_FALSE(is_hosts && op.communicator != plan::kNone);
    num_works += is_hosts ? 1 : 0;
  }
  EXPECT_GT(num_works, 2);
}

TEST(DeviceOffload, AGradientThatIsNotFiniteEndsTheStep) {
  const runtime::TestRun run = OffloadRun({"full", 2, Offload::kAll});
  const auto schedule = plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  runtime::NullSink sink;
  CpuAsGpu device(run.model);
  auto made = runtime::Ranks::Make(runtime::JobOf(run),
                                   transport::MakeSharedMemoryTransport(2, 60 * kNsPerSecond),
                                   &sink, &device);
  ASSERT_TRUE(made.ok()) << made.message();
  runtime::Ranks& ranks = **made;
  ASSERT_TRUE(ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); }).ok());
  ranks.work(0).units()[1].parameters().fill_(std::numeric_limits<double>::infinity());
  const Status status = ranks.OnAll([&](int rank) {
    ranks.work(rank).BeginStep(0, 1e-3);
    return ranks.runner(rank).RunStep(0);
  });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), testing::HasSubstr("the gradient is not finite"));
}

// The state goes to the host and comes back, with the bits that it has.
TEST(DeviceOffload, MovesBetweenLayouts) {
  runtime::TestRun run = OffloadRun({"full", 2, Offload::kNone});
  TrainOnDevice(run, [&](runtime::Ranks& ranks) {
    const auto values = [&ranks] {
      model::ParameterMap parameters;
      for (const plan::Parameter& parameter : model::AllParameters(ranks.job().model)) {
        parameters[parameter.name] = ranks.FullParameter(parameter.name);
      }
      return parameters;
    };
    const model::ParameterMap before = values();
    for (const Offload offload : {Offload::kAll, Offload::kOptimizer, Offload::kNone}) {
      run.policy.offload = offload;
      const auto schedule =
          plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
      ASSERT_TRUE(schedule.ok()) << schedule.message();
      const Status status =
          ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); });
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(runtime::LargestDifference(values(), before), 0);
    }
  });
}

}  // namespace
}  // namespace shardscope::cuda
