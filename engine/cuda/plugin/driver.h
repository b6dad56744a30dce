// Whether this machine can run CUDA at all, found out without the CUDA runtime, LibTorch or the
// plugin: the driver alone knows.
#pragma once

#include <string>

#include "trace/base/status.h"

namespace shardscope::cuda {

// The CUDA that the plugin is built with, as cuDriverGetVersion counts: 13.0.
inline constexpr int kNeededDriverVersion = 13000;

// Starts the driver in this process: whatever it reads from the environment has to be there. Error:
// what is missing, in a few words ("this machine has no NVIDIA driver (...)").
Status CheckDriver(const std::string& library = "libcuda.so.1");

}  // namespace shardscope::cuda
