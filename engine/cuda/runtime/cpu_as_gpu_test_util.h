// Training with the bodies for a device on the CPU, for tests.
#pragma once

#include <functional>
#include <memory>

#include "engine/cuda/runtime/cuda_work.h"
#include "engine/cuda/runtime/device_model.h"
#include "engine/runtime/cpu_device.h"
#include "engine/runtime/ranks/job_test_util.h"

namespace shardscope::cuda {

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

 private:
  const DevicePlace place_;
  const DeviceModel model_;
};

// `at_end`: called with the ranks as the last step has left them.
runtime::TestResult TrainOnDevice(const runtime::TestRun& run,
                                  const std::function<void(runtime::Ranks&)>& at_end = nullptr,
                                  bool uses_pool = false);

}  // namespace shardscope::cuda
