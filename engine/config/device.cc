#include "engine/config/device.h"

#include <algorithm>

namespace shardscope::config {

DeviceKind GetDevice(const Config& config) {
  const auto name = std::ranges::find(kDeviceNames, config.Get("run.device"));
  return static_cast<DeviceKind>(name - kDeviceNames.begin());
}

}  // namespace shardscope::config
