#include "engine/cuda/plugin/driver.h"

#include <dlfcn.h>

#include <cstdlib>

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

}  // namespace

// The library stays loaded: the CUDA runtime wants the same one.
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

}  // namespace shardscope::cuda
