// Finds LibTorch's CUDA libraries, which this project neither links nor fetches: they are 3 GB, and
// PyTorch brings them to every machine with a GPU.
#pragma once

#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::cuda {

// Where they may be: the folder that SHARDSCOPE_TORCH_LIB names; else what the loader finds by
// name, then beside the libtorch_cpu.so of this process.
std::vector<std::string> TorchCudaCandidates();

// Opens libtorch_cuda.so, whose kernels and streams register themselves with libtorch_cpu. Error:
// it is nowhere, or not of the version that this was built with.
Status LoadTorchCuda(const std::vector<std::string>& candidates = TorchCudaCandidates());

}  // namespace shardscope::cuda
