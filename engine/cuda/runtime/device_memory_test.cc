// What the ops of a device count against what LibTorch's allocator handed out, on the CPU: equal to
// the byte at every step's end, and where they differ the difference is said.
#include "engine/cuda/runtime/torch_memory.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/cuda/runtime/cuda_work.h"
#include "engine/executor/cpu_runner.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/ranks/job_test_util.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using runtime::TensorScope;

// Every tensor of a rank comes from a pool that counts it.
class CountedMemory final : public DeviceMemory {
 public:
  explicit CountedMemory(int num_ranks) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      pools_.push_back(std::make_shared<runtime::MemoryPool>(runtime::MemoryPool::Options{}));
    }
  }
  const std::shared_ptr<runtime::MemoryPool>& PoolOf(int rank) const {
    return pools_[static_cast<size_t>(rank)];
  }
  int64_t HandedOut(int rank) const override { return PoolOf(rank)->allocated_bytes(); }
  int64_t Reserved(c10::Device /*device*/) const override { return 1 << 20; }
  int64_t InUse() const override { return 3 << 20; }

 private:
  std::vector<std::shared_ptr<runtime::MemoryPool>> pools_;
};

class CountedBodies final : public executor::OpBodies {
 public:
  CountedBodies(const std::shared_ptr<runtime::MemoryPool>& pool, executor::OpBodies* bodies)
      : pool_(pool), bodies_(bodies) {}
  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override {
    const TensorScope scope(pool_);
    return bodies_->Allocate(context, buffer);
  }
  void Run(const executor::OpContext& context) override {
    const TensorScope scope(pool_);
    bodies_->Run(context);
  }
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Free(context, buffer);
  }

 private:
  const std::shared_ptr<runtime::MemoryPool>& pool_;
  executor::OpBodies* const bodies_;
};

class CountedDevice final : public runtime::CpuDevice {
 public:
  CountedDevice(const runtime::TestRun& run, bool uses_pool)
      : CpuDevice(runtime::CpuOptions()),
        memory_(run.training.num_ranks),
        uses_pool_(uses_pool),
        model_(run.model, at::kCPU) {}
  std::unique_ptr<runtime::RankWork> MakeWork(int rank, const runtime::RankContext& rank_context,
                                              model::Sampler sampler) override {
    const TensorScope scope(memory_.PoolOf(rank));
    const DevicePlace place{.model = &model_,
                            .uses_pool = uses_pool_,
                            .memory = &memory_,
                            .is_first_of_device = rank == 0};
    return std::make_unique<CudaWork>(rank, place, rank_context, std::move(sampler));
  }
  std::unique_ptr<executor::StepRunner> MakeRunner(int rank, executor::OpBodies* bodies,
                                                   executor::ExecutionSink* sink) override {
    counted_.push_back(std::make_unique<CountedBodies>(memory_.PoolOf(rank), bodies));
    return CpuDevice::MakeRunner(rank, counted_.back().get(), sink);
  }

  const CountedMemory& memory() const { return memory_; }

 private:
  CountedMemory memory_;
  const bool uses_pool_;
  const DeviceModel model_;
  std::vector<std::unique_ptr<CountedBodies>> counted_;
};

// A training whose step ends are looked at: what EndStep() of each rank returned, by step.
struct Looked {
  std::vector<std::vector<int64_t>> unaccounted;
};

Looked Train(const plan::Policy& policy, bool uses_pool,
             const std::function<void(int rank, int64_t step)>& on_control = nullptr) {
  runtime::TestRun run;
  run.training.num_ranks = 2;
  run.policy = policy;
  runtime::InstallTensorMemory();
  const Result<plan::Schedule> schedule =
      plan::BuildSchedule(runtime::DescriptionOf(run), runtime::PolicyOf(run));
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  runtime::NullSink sink;
  CountedDevice device(run, uses_pool);
  auto made = runtime::Ranks::Make(runtime::JobOf(run),
                                   transport::MakeSharedMemoryTransport(2, 60 * kNsPerSecond),
                                   &sink, &device);
  EXPECT_TRUE(made.ok()) << made.message();
  runtime::Ranks& ranks = **made;
  Looked looked{.unaccounted = std::vector<std::vector<int64_t>>(5, std::vector<int64_t>(2))};
  for (const int rank : ranks.local()) {
    ranks.work(rank).set_on_control([&, rank](int64_t step) {
      if (on_control) on_control(rank, step);
    });
  }
  for (int64_t step = 0; step < 5; ++step) {
    const Status status = ranks.OnAll([&](int rank) {
      runtime::RankWork& work = ranks.work(rank);
      {
        const TensorScope scope(device.memory().PoolOf(rank));  // SetSchedule() takes the pool
        const Status set = step == 0 ? ranks.SetSchedule(rank, *schedule) : Status::Ok();
        EXPECT_TRUE(set.ok()) << set.message();
        work.BeginStep(step, 1e-3);
      }
      const Status ran = ranks.runner(rank).RunStep(step);
      const int64_t counted = work.allocated_bytes();
      const int64_t unaccounted = work.EndStep();
      looked.unaccounted[static_cast<size_t>(step)][static_cast<size_t>(rank)] = unaccounted;
      EXPECT_EQ(work.allocated_bytes(), counted + unaccounted);
      if (!uses_pool) {
        EXPECT_EQ(work.allocated_bytes(), device.memory().HandedOut(rank));
      }
      // What the ranks of a device share is the first one's.
      EXPECT_EQ(work.reserved_bytes(), rank == 0 ? 1 << 20 : work.allocated_bytes());
      EXPECT_EQ(work.device_used_bytes(), rank == 0 ? 3 << 20 : -1);
      return ran;
    });
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return looked;
}

// Of a rank: loss, norm, and whether the gradient is finite.
constexpr int64_t kScalarBytes = 3 * sizeof(double);

TEST(DeviceMemory, EveryByteIsAccountedForAtEveryStepsEnd) {
  plan::Policy policy;
  for (const plan::Preset preset : {plan::Preset::kFsdp1, plan::Preset::kFsdp2}) {
    for (const bool uses_pool : {false, true}) {
      policy.preset = preset;
      const Looked looked = Train(policy, uses_pool);
      for (const int64_t bytes : looked.unaccounted[0]) EXPECT_EQ(bytes, kScalarBytes);
      for (size_t step = 1; step < looked.unaccounted.size(); ++step) {
        for (const int64_t bytes : looked.unaccounted[step]) EXPECT_EQ(bytes, 0) << step;
      }
    }
  }
}

// The check above can fail: what an op keeps that no op says is seen at that step's end, and so is
// that it comes back.
TEST(DeviceMemory, WhatNoOpAccountsForIsFoundToTheByte) {
  at::Tensor kept;
  const Looked looked = Train({}, /*uses_pool=*/false, [&](int rank, int64_t step) {
    if (rank == 1 && step == 2) kept = at::empty({1000}, at::kFloat);
    if (rank == 1 && step == 4) kept.reset();
  });
  EXPECT_EQ(looked.unaccounted[2][1], 4000);
  EXPECT_EQ(looked.unaccounted[3][1], 0);
  EXPECT_EQ(looked.unaccounted[4][1], -4000);
  for (const size_t step : {1, 2, 3, 4}) EXPECT_EQ(looked.unaccounted[step][0], 0);
}

}  // namespace
}  // namespace shardscope::cuda
