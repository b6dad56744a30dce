// The environment that CUDA, NCCL and LibTorch read: what we set in it, and what of it a trace
// keeps.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace shardscope::cuda {

// Sets what the user has not set. Before any thread and any call into CUDA: it is read once.
// `waits_for_ranks`: collectives of several processes or GPUs. Returns what the user should know of
// the values that were there already.
std::vector<std::string> SetCudaEnvironment(bool waits_for_ranks);

// All NCCL_*, CUDA_*, CUBLAS_*, TORCH_* and PYTORCH_* variables of this process.
std::map<std::string, std::string> CudaEnvironment();

}  // namespace shardscope::cuda
