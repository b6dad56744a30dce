// For tests: the fake runtime, loaded once a process.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/cuda/device/runtime_api.h"
#include "tests/fake_cuda/fake_runtime.h"
#include "tests/places.h"
#include "trace/base/check.h"

namespace shardscope::cuda {

// What stands for a kernel: runs when its stream gets there.
using LaunchHostFunc = Code (*)(Stream stream, void (*work)(void*), void* argument);

struct Fake {
  RuntimeApi api;
  const FakeControl* control = nullptr;
  LaunchHostFunc launch = nullptr;
};

// Stops the test program if it cannot be loaded: nothing could be tested.
inline const Fake& TheFake() {
  static const Fake kFake = [] {
    const std::string path = BinDir() + "/../tests/libfake_cudart.so";
    const Result<RuntimeApi> api = LoadRuntimeApi(path);
    SHARDSCOPE_CHECK(api.ok());
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto control =
        reinterpret_cast<const FakeControl* (*)()>(dlsym(library, kFakeControlSymbol));
    SHARDSCOPE_CHECK(control != nullptr);
    return Fake{*api, control(),
                reinterpret_cast<LaunchHostFunc>(dlsym(library, "cudaLaunchHostFunc"))};
  }();
  return kFake;
}

}  // namespace shardscope::cuda
