// The GPUs of this machine as a runtime::Device: what libshardscope_cuda.so is for.
#pragma once

#include <memory>

#include "engine/cuda/plugin/plugin.h"

namespace shardscope::cuda {

// Loads LibTorch's CUDA libraries, starts the driver, takes the GPUs. Where ranks are processes,
// each takes the GPU of its number on this machine; where they are threads, transport=nccl gives
// each one of its own, and other transports put all on the first. Error: what is missing, in one
// message.
Result<std::unique_ptr<runtime::Device>> OpenCudaDevice(const DeviceOptions& options);

}  // namespace shardscope::cuda
