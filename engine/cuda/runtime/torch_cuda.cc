#include "engine/cuda/runtime/torch_cuda.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <filesystem>

#include "trace/base/text.h"

namespace shardscope::cuda {
namespace {

constexpr const char* kLibrary = "libtorch_cuda.so";

// The folder of the libtorch_cpu.so that this process runs with.
std::string TorchFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&at::globalContext), &info) == 0) return "";
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

}  // namespace

std::vector<std::string> TorchCudaCandidates() {
  if (const char* folder = std::getenv("SHARDSCOPE_TORCH_LIB")) {
    return {std::string(folder) + "/" + kLibrary};
  }
  return {kLibrary, TorchFolder() + "/" + kLibrary};
}

Status LoadTorchCuda(const std::vector<std::string>& candidates) {
  std::vector<std::string> reasons;
  for (const std::string& candidate : candidates) {
    // Stays loaded. Its own libraries it finds by its own paths, libtorch_cpu is the one loaded.
    if (dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
      if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return Status::Ok();
      return Status::Error(candidate + " is no CUDA library of LibTorch");
    }
    reasons.emplace_back(dlerror());
  }
  return Status::Error("LibTorch's CUDA libraries cannot be loaded (" + Join(reasons, "; ") +
                       "): pip install torch==" + TORCH_VERSION +
                       ", and set SHARDSCOPE_TORCH_LIB to its folder torch/lib");
}

}  // namespace shardscope::cuda
