// Training of some parameters only, and of LoRA's adapters, with the bodies for a device, on the
// CPU: against the unsharded reference; what is frozen keeps its bits.
#include <gtest/gtest.h>

#include <string>

#include "engine/cuda/runtime/cpu_as_gpu_test_util.h"
#include "engine/runtime/ranks/frozen_test_util.h"

namespace shardscope::cuda {
namespace {

using plan::Preset;
using runtime::FrozenCase;
using runtime::FrozenRun;
using runtime::Trains;

// The fused update divides gradients by a number in fp32, and what begins with 0, as an adapter's
// B, is as large as its updates.
constexpr runtime::FrozenTolerance kFusedTolerance = {.parameters = 1e-6, .scalars = 1e-7};

class DeviceFrozenTest : public testing::TestWithParam<FrozenCase> {};

const FrozenCase kDeviceFrozenCases[] = {{"full", 1},
                                         {"full", 3},
                                         {"full", 2, Preset::kFsdp1},
                                         {"full", 3, Preset::kDoubleBuffer},
                                         {"no_shard", 2},
                                         {"hybrid", 4},
                                         {"ddp", 3},
                                         {"zero2", 2},
                                         {"zero3", 2},
                                         {"pipeline", 2},
                                         {"pipeline", 3},
                                         {"full", 4, Preset::kFsdp2, 2, 2},
                                         {"tensor", 2},
                                         {"tensor", 3},
                                         {"full", 4, Preset::kFsdp2, 1, 0, 2}};

INSTANTIATE_TEST_SUITE_P(Strategies, DeviceFrozenTest, testing::ValuesIn(kDeviceFrozenCases),
                         runtime::FrozenName);

TEST_P(DeviceFrozenTest, TrainsAsTheReference) {
  for (const Trains trains : runtime::kAllTrains) {
    const runtime::TestRun run = FrozenRun(GetParam(), trains);
    if (run.model.tied && !runtime::CanBeTied(run)) continue;
    SCOPED_TRACE("trains " + std::to_string(static_cast<int>(trains)));
    ExpectFrozen(run, TrainOnDevice(run), kFusedTolerance);
  }
}

// Buffers in one block, checkpointing and accumulation change what ops there are.
TEST(DeviceFrozen, GoesWithOtherOptions) {
  for (const Trains trains : {Trains::kAdapters, Trains::kLastAdapters}) {
    runtime::TestRun run = FrozenRun({"full", 2}, trains);
    ExpectFrozen(run, TrainOnDevice(run, nullptr, /*uses_pool=*/true), kFusedTolerance);
    run.policy.checkpointing.mode = plan::Checkpointing::kEvery;
    ExpectFrozen(run, TrainOnDevice(run), kFusedTolerance);
    run.policy.checkpointing.mode = plan::Checkpointing::kProducts;
    run.policy.accumulation.sync = plan::GradientSync::kNoSync;
    run.policy.accumulation.reshards = false;
    ExpectFrozen(run, TrainOnDevice(run), kFusedTolerance);
  }
}

// The first stage of the pipeline trains nothing, and hears of the norm and of what is not finite.
TEST(DeviceFrozen, GoesWithAScaler) {
  for (const char* strategy : {"full", "pipeline"}) {
    for (const Trains trains : {Trains::kAdapters, Trains::kHead}) {
      runtime::TestRun run = FrozenRun({strategy, 2}, trains);
      run.training.scaler.is_on = true;
      ExpectFrozen(run, TrainOnDevice(run), kFusedTolerance);
    }
  }
}

TEST(DeviceFrozen, Bf16FollowsTheReference) {
  for (const Trains trains : {Trains::kAdapters, Trains::kHead}) {
    runtime::TestRun run = FrozenRun({"full", 2}, trains);
    run.model.dtype = plan::DType::kBf16;
    const runtime::TestResult trained = TrainOnDevice(run);
    const runtime::TestResult reference = runtime::TrainReference(run);
    ASSERT_EQ(trained.losses.size(), reference.losses.size());
    EXPECT_NEAR(trained.losses.back(), reference.losses.back(), 2e-2 * reference.losses.back());
  }
}

}  // namespace
}  // namespace shardscope::cuda
