#include "engine/config/device.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::config {
namespace {

TEST(DeviceKindTest, IsReadFromEveryValueOfItsKey) {
  Config config;
  EXPECT_EQ(GetDevice(config), DeviceKind::kCpu);
  EXPECT_EQ(Name(DeviceKind::kCpu), "cpu");
  EXPECT_EQ(Name(DeviceKind::kCuda), "cuda");
  EXPECT_EQ(Name(DeviceKind::kAuto), "auto");
  const std::vector<std::string>& names = FindKey("run.device")->choices;
  ASSERT_EQ(names.size(), kDeviceNames.size());
  for (size_t at = 0; at < names.size(); ++at) {
    ASSERT_TRUE(config.Set("run.device", names[at]).ok());
    EXPECT_EQ(GetDevice(config), static_cast<DeviceKind>(at));
    EXPECT_EQ(Name(GetDevice(config)), names[at]);
  }
}

}  // namespace
}  // namespace shardscope::config
