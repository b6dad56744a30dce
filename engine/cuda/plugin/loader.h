// Opens the device that run.device names: the CPU, or a GPU through libshardscope_cuda.so and what
// that needs, or says in one line what is missing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/config/device.h"
#include "engine/cuda/plugin/plugin.h"
#include "trace/base/status.h"

namespace shardscope::cuda {

// What run.device asks for and what there is.
struct DeviceChoice {
  config::DeviceKind wanted = config::DeviceKind::kCpu;  // the value of run.device
  config::DeviceKind device = config::DeviceKind::kCpu;  // what it came to be: kCpu or kCuda
  const PluginApi* plugin = nullptr;                     // with kCuda
  std::string why_not_cuda;           // with auto, where it became cpu: one sentence
  std::vector<std::string> warnings;  // for the user
};

// `wanted`: the value of run.device; `waits_for_ranks`: see SetCudaEnvironment(). With kCpu
// nothing is touched. Sets the environment before it starts the driver, so: before any thread.
// Error: cuda was asked for and cannot be had; says what is missing and what still works.
Result<DeviceChoice> ChooseDevice(config::DeviceKind wanted, bool waits_for_ranks);

// Takes the device that was chosen. What keeps a GPU from being used, as LibTorch's CUDA libraries
// that are not there or a precision that the GPU has not, makes auto choose the CPU after all, and
// `choice` says so. Error: as ChooseDevice(). `options.config`: for the device that was chosen; a
// CPU that is taken after all needs nothing from it that depends on the device.
Result<std::unique_ptr<runtime::Device>> OpenDevice(const DeviceOptions& options,
                                                    DeviceChoice* choice);

// libshardscope_cuda.so beside the running program; SHARDSCOPE_CUDA_PLUGIN names another file.
std::string PluginPath();

// Error: it is not there, cannot be loaded, or belongs to another build.
Result<const PluginApi*> LoadPlugin(const std::string& path);

}  // namespace shardscope::cuda
