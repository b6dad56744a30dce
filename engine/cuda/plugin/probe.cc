#include "engine/cuda/plugin/probe.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace shardscope::cuda {
namespace {

// cuda.h
constexpr int kStubLibrary = 34;
constexpr int kNoDevice = 100;

std::string Version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Variables that hide GPUs from a process.
std::string Hidden() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : " (CUDA_VISIBLE_DEVICES=" + std::string(visible) + ")";
}

void SetUnlessSet(const char* name, const char* value) { setenv(name, value, 0); }

}  // namespace

// The library stays loaded: the CUDA runtime needs the same one.
Status CheckDriver(const std::string& library) {
  void* const driver = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    return Status::Error("this machine has no NVIDIA driver (" + library + " cannot be loaded)");
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto version_of = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  const auto count_of = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || version_of == nullptr || count_of == nullptr) {
    return Status::Error(library + " is no NVIDIA driver: it has no function cuInit");
  }
  const int started = init(0);
  if (started == kStubLibrary) {
    return Status::Error(library +
                         " is only the stub that programs are linked with: this machine "
                         "has no NVIDIA driver, or the stub hides it (LD_LIBRARY_PATH)");
  }
  int count = 0;
  if (started == kNoDevice || (started == 0 && count_of(&count) == 0 && count == 0)) {
    return Status::Error("the NVIDIA driver finds no GPU" + Hidden());
  }
  if (started != 0) {
    return Status::Error("the NVIDIA driver does not start (cuInit returns " +
                         std::to_string(started) + "): `nvidia-smi` may say more");
  }
  int version = 0;
  if (version_of(&version) != 0 || version < kNeededDriverVersion) {
    return Status::Error("the NVIDIA driver is for CUDA " + Version(version) + ", and CUDA " +
                         Version(kNeededDriverVersion) + " is needed: install driver 580 or newer");
  }
  return Status::Ok();
}

std::vector<std::string> SetCudaEnvironment(bool waits_for_ranks) {
  // Hardware queues: with the default of 8, streams of several ranks share one and wait for each
  // other although no dependency says so.
  SetUnlessSet("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  // A kernel that is first used while another rank's collective spins on the same GPU can only be
  // loaded when that has ended, which may be never.
  SetUnlessSet("CUDA_MODULE_LOADING", waits_for_ranks ? "EAGER" : "LAZY");
  // Not CUBLAS_WORKSPACE_CONFIG: LibTorch gives every stream a workspace of its own, so that
  // results repeat bit for bit, and where it is set reads it before each product with a regular
  // expression: a sixth of the host's time in small steps (on an H200).
  //
  // LibTorch's allocator takes plain blocks from the driver, whose sizes the trace can be checked
  // against. Under either name: the new one would hide what the user set by the old one.
  if (std::getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr) {
    SetUnlessSet("PYTORCH_ALLOC_CONF", "expandable_segments:False");
  }
  // With two communicators (comm.communicators=2) NCCL keeps the order in which the host issues
  // their kernels: else two GPUs may begin with different ones and wait for each other.
  if (waits_for_ranks) SetUnlessSet("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  std::vector<std::string> warnings;
  if (std::string_view(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "1") {
    warnings.emplace_back(
        "CUDA_DEVICE_MAX_CONNECTIONS=1 makes all streams share one hardware queue: collectives "
        "will not overlap with compute; unset it");
  }
  return warnings;
}

}  // namespace shardscope::cuda
