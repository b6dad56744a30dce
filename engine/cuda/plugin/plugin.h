// The interface between shardscope-train and libshardscope_cuda.so, which it opens at run time.
// Both are built from one tree by one compiler and exchange C++ objects: a plugin of another build
// is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/config/config.h"
#include "engine/config/launch.h"
#include "engine/runtime/ranks/device.h"
#include "trace/base/status.h"
#include "trace/base/version.h"

namespace shardscope::cuda {

// Raised whenever anything that passes through this interface changes its shape.
inline constexpr uint32_t kPluginVersion = 6;

struct DeviceOptions {
  config::Config config;                 // passed Check()
  std::optional<config::Launch> launch;  // where the ranks are processes
};

// What the plugin gives. Its first two members never move, so that any two versions can tell each
// other apart.
struct PluginApi {
  uint32_t version = kPluginVersion;
  const char* build = nullptr;  // BuildName() of the plugin

  // Takes the device: what is wrong with it is said here, in one message. No exceptions.
  Result<std::unique_ptr<runtime::Device>> (*open_device)(const DeviceOptions& options) = nullptr;
};

// Who compiled this: version of the program and of the compiler. Equal in program and plugin, or
// they do not fit.
inline const char* BuildName() {
  static const std::string kName = std::string("shardscope ") + kVersion + ", " __VERSION__;
  return kName.c_str();
}

// What the plugin exports: extern "C" const PluginApi* ShardscopeCudaPlugin().
inline constexpr const char* kPluginSymbol = "ShardscopeCudaPlugin";
using PluginEntry = const PluginApi* (*)();

}  // namespace shardscope::cuda
