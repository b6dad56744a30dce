// Training with the bodies for a device, on the CPU: against the unsharded reference, against the
// CPU's own bodies, and schedules against one another.
#include "engine/cuda/runtime/cuda_work.h"

#include <ATen/ops/equal.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "engine/cuda/runtime/cpu_as_gpu_test_util.h"
#include "engine/plan/strategy_test_util.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using plan::BackwardPrefetch;
using plan::FindStrategy;
using plan::Preset;
using plan::Strategy;
using runtime::TestResult;
using runtime::TestRun;

struct Training {
  int ranks;
  int64_t micro_batches;
  Preset preset;
  const Strategy* strategy;
  int stages = 0;
  bool sequence = false;
};

TestRun RunOf(const Training& tested, plan::DType dtype) {
  TestRun run;
  run.model.dtype = dtype;
  run.training.num_ranks = tested.ranks;
  run.training.micro_batches = tested.micro_batches;
  run.policy.preset = tested.preset;
  SetStrategy(*tested.strategy, &run.policy);
  run.stages = tested.stages;
  run.policy.units.sequence_parallel = tested.sequence;
  if (tested.sequence) run.model.seq = 18;  // a part for each rank
  const int stages = runtime::PolicyOf(run).units.stages;
  if (stages > 1) run.model.layers = stages;
  return run;
}

class CudaWorkTest : public testing::TestWithParam<Training> {};

TEST_P(CudaWorkTest, Fp64EqualsTheReference) {
  const TestRun run = RunOf(GetParam(), plan::DType::kFp64);
  const TestResult actual = TrainOnDevice(run);
  const TestResult expected = runtime::TrainReference(run);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  EXPECT_LE(runtime::LargestDifference(actual.parameters, expected.parameters), 1e-7);
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], 1e-8 * expected.losses[step]);
    EXPECT_NEAR(actual.norms[step], expected.norms[step], 1e-8 * expected.norms[step]);
  }
}

TEST_P(CudaWorkTest, Bf16WithFp32MasterWeightsFollowsTheReference) {
  TestRun run = RunOf(GetParam(), plan::DType::kBf16);
  run.training.steps = 10;
  for (const plan::DType reduce : {plan::DType::kFp32, plan::DType::kBf16}) {
    run.policy.reduce_dtype = reduce;
    const TestResult actual = TrainOnDevice(run);
    const TestResult expected = runtime::TrainReference(run);
    ASSERT_EQ(actual.losses.size(), expected.losses.size());
    for (size_t step = 0; step < expected.losses.size(); ++step) {
      EXPECT_NEAR(actual.losses[step], expected.losses[step], 2e-2 * expected.losses[step]);
    }
    EXPECT_LT(actual.losses.back(), 0.9 * actual.losses.front());
    for (const auto& [name, tensor] : actual.parameters) {
      ASSERT_EQ(tensor.scalar_type(), at::kFloat) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaWorkTest,
    testing::Values(Training{1, 1, Preset::kFsdp2, FindStrategy("full")},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("full")},
                    Training{4, 1, Preset::kFsdp1, FindStrategy("grad_op")},
                    Training{3, 2, Preset::kDoubleBuffer, FindStrategy("full")},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("no_shard")},
                    Training{4, 1, Preset::kFsdp2, FindStrategy("hybrid_grad_op")},
                    Training{4, 2, Preset::kFsdp2, FindStrategy("hybrid")},
                    Training{1, 2, Preset::kFsdp2, FindStrategy("single")},
                    Training{3, 4, Preset::kFsdp2, FindStrategy("pipeline")},
                    Training{2, 2, Preset::kFsdp2, FindStrategy("model_parallel")},
                    Training{4, 3, Preset::kFsdp2, FindStrategy("full"), 2},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("tensor")},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("tensor"), 0, true},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("data_parallel")},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("ddp")},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("zero1")},
                    Training{2, 2, Preset::kFsdp2, FindStrategy("zero2")},
                    Training{3, 2, Preset::kFsdp2, FindStrategy("zero3")}),
    [](const auto& tested) {
      return "ranks" + std::to_string(tested.param.ranks) + "_" +
             std::string(tested.param.strategy->name) +
             (tested.param.preset == Preset::kDoubleBuffer ? "_double_buffer" : "") +
             (tested.param.sequence ? "_sequence" : "");
    });

TEST(CudaWorkBits, SchedulesThatOnlyMoveOpsAgree) {
  TestRun run = RunOf({3, 2, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  run.training.steps = 3;
  const TestResult expected = TrainOnDevice(run);
  run.policy.backward_prefetch = BackwardPrefetch::kNone;
  EXPECT_TRUE(runtime::SameBits(TrainOnDevice(run), expected));
  run.policy.preset = Preset::kFsdp1;
  run.policy.forward_prefetch = 2;
  run.policy.prefetch_limit = 2;
  EXPECT_TRUE(runtime::SameBits(TrainOnDevice(run), expected));
}

// Buffers share places whenever the Schedule orders one's end before the other's start.
TEST(CudaWorkBits, AsyncTensorRanksAgree) {
  TestRun run = RunOf({3, 2, Preset::kFsdp2, FindStrategy("tensor"), 0, true}, plan::DType::kFp32);
  run.training.steps = 3;
  const TestResult expected = TrainOnDevice(run);
  run.policy.tensor_async = true;
  EXPECT_TRUE(runtime::SameBits(TrainOnDevice(run), expected));
}

TEST(CudaWorkBits, APoolChangesNothing) {
  TestRun run = RunOf({3, 2, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  run.training.steps = 3;
  run.jitter = true;
  EXPECT_TRUE(runtime::SameBits(TrainOnDevice(run, nullptr, /*uses_pool=*/true),
                                TrainOnDevice(run, nullptr, /*uses_pool=*/false)));
}

TEST(DeviceWorkMemory, BetweenStepsOnlyTheShardsAreLeft) {
  const TestRun run = RunOf({2, 1, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  TrainOnDevice(run, [](runtime::Ranks& ranks) {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      runtime::RankWork& work = ranks.work(rank);
      const int64_t state_bytes = ranks.job().initial_layout.bytes();
      EXPECT_EQ(work.allocated_bytes(), state_bytes);
      EXPECT_GT(work.TakePeakBytes(), state_bytes);
      EXPECT_EQ(work.TakePeakBytes(), state_bytes);
    }
  });
}

TEST(CudaWorkErrors, AGradientThatIsNotFiniteEndsTheStep) {
  TestRun run = RunOf({2, 1, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  const Result<plan::Schedule> schedule =
      plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  runtime::NullSink sink;
  CpuAsGpu device(run.model);
  auto made = runtime::Ranks::Make(runtime::JobOf(run),
                                   transport::MakeSharedMemoryTransport(2, 60 * kNsPerSecond),
                                   &sink, &device);
  ASSERT_TRUE(made.ok());
  runtime::Ranks& ranks = **made;
  EXPECT_TRUE(ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); }).ok());
  ranks.work(0).units()[1].parameters().fill_(std::numeric_limits<float>::infinity());
  const Status status = ranks.OnAll([&](int rank) {
    ranks.work(rank).BeginStep(0, 1e-3);
    const Status ran = ranks.runner(rank).RunStep(0);
    ranks.work(rank).EndStep();
    return ran;
  });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), testing::HasSubstr("the gradient is not finite"));
}

// The state moves through the host's memory.
TEST(DeviceWorkState, MovesToAnotherStrategyAndBack) {
  const TestRun full = RunOf({3, 1, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  TrainOnDevice(full, [&](runtime::Ranks& ranks) {
    const auto state = [&ranks] {
      std::map<std::string, at::Tensor> parameters;
      for (const plan::Parameter& parameter : model::AllParameters(ranks.job().model)) {
        parameters[parameter.name] = ranks.FullParameter(parameter.name);
      }
      return parameters;
    };
    const auto before = state();
    for (const char* name : {"ddp", "zero1", "zero2", "zero3", "full"}) {
      const TestRun next = RunOf({3, 1, Preset::kFsdp2, FindStrategy(name)}, plan::DType::kFp32);
      const auto schedule =
          plan::BuildSchedule(runtime::DescriptionOf(next), runtime::PolicyOf(next));
      ASSERT_TRUE(schedule.ok()) << schedule.message();
      const Status status =
          ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); });
      ASSERT_TRUE(status.ok()) << status.message();
      for (const auto& [parameter, tensor] : state()) {
        EXPECT_TRUE(at::equal(tensor, before.at(parameter))) << name << " " << parameter;
      }
    }
  });
}

// A broken device, as LibTorch tells it: one line that names rank, step and op.
TEST(CudaWorkErrors, AnErrorOfTheAcceleratorIsOneLineWithItsOp) {
  const TestRun run = RunOf({2, 1, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  const Result<plan::Schedule> schedule =
      plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  runtime::NullSink sink;
  CpuAsGpu device(run.model);
  auto made = runtime::Ranks::Make(runtime::JobOf(run),
                                   transport::MakeSharedMemoryTransport(2, 60 * kNsPerSecond),
                                   &sink, &device);
  ASSERT_TRUE(made.ok());
  runtime::Ranks& ranks = **made;
  EXPECT_TRUE(ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); }).ok());
  ranks.work(1).set_on_control([](int64_t /*step*/) {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700,
                                "CUDA error: an illegal memory access was encountered\n"
                                "Compile with `TORCH_USE_CUDA_DSA` to enable assertions");
  });
  const Status status = ranks.OnAll([&](int rank) {
    ranks.work(rank).BeginStep(0, 1e-3);
    return ranks.runner(rank).RunStep(0);
  });
  EXPECT_THAT(status.message(), testing::HasSubstr("rank 1, step 0, op 'control"));
  EXPECT_THAT(status.message(), testing::HasSubstr("an illegal memory access was encountered"));
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find("DSA"), std::string::npos);
}

// A transport whose collective was ended in its middle: the streams are done, and nothing is right.
TEST(CudaWorkErrors, AStepWhoseTransportWasAbortedHasNotEnded) {
  class Aborted final : public transport::Transport {
   public:
    explicit Aborted(std::unique_ptr<transport::Transport> next) : next_(std::move(next)) {}
    const transport::Capabilities& capabilities() const override { return next_->capabilities(); }
    void AllGather(const transport::Call& call,
                   std::span<const transport::GatherPiece> pieces) override {
      next_->AllGather(call, pieces);
    }
    void ReduceScatter(const transport::Call& call, std::span<const transport::ReducePiece> pieces,
                       const transport::Reduction& reduction) override {
      next_->ReduceScatter(call, pieces, reduction);
    }
    void AllReduce(const transport::Call& call, std::span<const transport::AllReducePiece> pieces,
                   const transport::Reduction& reduction) override {
      next_->AllReduce(call, pieces, reduction);
    }
    void Broadcast(const transport::Call& call,
                   std::span<const transport::BroadcastPiece> pieces) override {
      next_->Broadcast(call, pieces);
    }
    int64_t Broadcast(int rank, int64_t value) override { return next_->Broadcast(rank, value); }
    void Abort(const std::string& reason) override { next_->Abort(reason); }
    void ThrowIfAborted() const override { throw transport::TransportTimeout("rank 7 is late"); }
    void SetLink(double /*bytes_per_second*/, int64_t /*latency_ns*/) override {}

   private:
    const std::unique_ptr<transport::Transport> next_;
  };
  const TestRun run = RunOf({1, 1, Preset::kFsdp2, FindStrategy("full")}, plan::DType::kFp32);
  const Result<plan::Schedule> schedule =
      plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  runtime::NullSink sink;
  CpuAsGpu device(run.model);
  auto made = runtime::Ranks::Make(
      runtime::JobOf(run),
      std::make_unique<Aborted>(transport::MakeSharedMemoryTransport(1, 60 * kNsPerSecond)), &sink,
      &device);
  ASSERT_TRUE(made.ok());
  runtime::Ranks& ranks = **made;
  EXPECT_TRUE(ranks.OnAll([&](int rank) { return ranks.SetSchedule(rank, *schedule); }).ok());
  const Status status = ranks.OnAll([&](int rank) {
    ranks.work(rank).BeginStep(0, 1e-3);
    const Status ran = ranks.runner(rank).RunStep(0);
    EXPECT_TRUE(ran.ok()) << ran.message();
    ranks.work(rank).EndStep();
    return ran;
  });
  EXPECT_THAT(status.message(), testing::HasSubstr("rank 7 is late"));
}

}  // namespace
}  // namespace shardscope::cuda
