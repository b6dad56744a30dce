// run.device: what the ranks of a run compute on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/config/config.h"
#include "trace/base/enum_count.h"

namespace shardscope::config {

enum class DeviceKind : uint8_t {
  kCpu,
  kCuda,
  kAuto  // a GPU where there is one, else the CPU: until the trainer has settled it
};
// In the order of the enum; the first is the default.
inline constexpr auto kDeviceNames = std::to_array<std::string_view>({"cpu", "cuda", "auto"});
static_assert(kDeviceNames.size() == kCountOf<DeviceKind>);

// The value of run.device. Of what a device computes on also the column `device` of the trace.
constexpr std::string_view Name(DeviceKind kind) { return kDeviceNames[static_cast<size_t>(kind)]; }

DeviceKind GetDevice(const Config& config);

}  // namespace shardscope::config
