// Training with the bodies for a device on the CPU, for tests.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/cuda/runtime/cuda_work.h"
#include "engine/cuda/runtime/device_model.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/job_test_util.h"

namespace shardscope::cuda {

// Of the host's ops runs what a GPU's runner is given for them.
class WithHostWork final : public executor::OpBodies {
 public:
  explicit WithHostWork(executor::OpBodies* bodies) : bodies_(bodies) {}
  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Allocate(context, buffer);
  }
  void Run(const executor::OpContext& context) override {
    if (const std::function<void()> work = bodies_->HostWork(context)) return work();
    bodies_->Run(context);
  }
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Free(context, buffer);
  }

 private:
  executor::OpBodies* const bodies_;
};

// The CPU in the place of a GPU.
class CpuAsGpu final : public runtime::CpuDevice {
 public:
  explicit CpuAsGpu(const model::ModelConfig& config, bool uses_pool = false)
      : CpuDevice(runtime::CpuOptions()),
        place_{.model = &model_, .uses_pool = uses_pool},
        model_(config, at::kCPU) {}
  std::unique_ptr<runtime::RankWork> MakeWork(int rank, const runtime::RankContext& rank_context,
                                              model::Sampler sampler) override {
    return std::make_unique<CudaWork>(rank, place_, rank_context, std::move(sampler));
  }
  std::unique_ptr<executor::StepRunner> MakeRunner(int rank, executor::OpBodies* bodies,
                                                   executor::ExecutionSink* sink) override {
    bodies_.push_back(std::make_unique<WithHostWork>(bodies));
    return CpuDevice::MakeRunner(rank, bodies_.back().get(), sink);
  }

 private:
  const DevicePlace place_;
  const DeviceModel model_;
  std::vector<std::unique_ptr<WithHostWork>> bodies_;
};

// `at_end`: called with the ranks as the last step has left them.
runtime::TestResult TrainOnDevice(const runtime::TestRun& run,
                                  const std::function<void(runtime::Ranks&)>& at_end = nullptr,
                                  bool uses_pool = false);

}  // namespace shardscope::cuda
