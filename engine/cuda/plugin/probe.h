// What a process does before it touches CUDA, without the CUDA runtime, LibTorch or the plugin:
// whether this machine can run CUDA at all, which the driver alone tells, and the environment that
// CUDA, NCCL and LibTorch read.
#pragma once

#include <string>
#include <vector>

#include "trace/base/cuda_environment.h"
#include "trace/base/status.h"

namespace shardscope::cuda {

// The CUDA that the plugin is built with, as cuDriverGetVersion counts: 13.0.
inline constexpr int kNeededDriverVersion = 13000;

// Starts the driver in this process: whatever it reads from the environment has to be there. Error:
// what is missing, in a few words ("this machine has no NVIDIA driver (...)").
Status CheckDriver(const std::string& library = "libcuda.so.1");

// Sets what the user has not set. Before any thread and any call into CUDA: it is read once.
// `waits_for_ranks`: collectives of several processes or GPUs. Returns what the user should know of
// the values that were there already.
std::vector<std::string> SetCudaEnvironment(bool waits_for_ranks);

// As it is then: what a trace keeps of it.
using shardscope::CudaEnvironment;

}  // namespace shardscope::cuda
