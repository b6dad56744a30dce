// What of a process's environment decides how its GPUs work, as traces keep it (table config).
#pragma once

#include <map>
#include <string>

namespace shardscope {

// All NCCL_*, CUDA_*, CUBLAS_*, TORCH_* and PYTORCH_* variables of this process, by name. While no
// thread changes the environment.
std::map<std::string, std::string> CudaEnvironment();

}  // namespace shardscope
