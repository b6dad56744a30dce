// Which models a GPU refuses, and what the message proposes.
#include "engine/cuda/runtime/device_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

config::Config With(const std::vector<std::string>& settings) {
  config::Config config;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    EXPECT_TRUE(config.Set(setting.substr(0, equals), setting.substr(equals + 1)).ok()) << setting;
  }
  EXPECT_TRUE(config.Check().ok());
  return config;
}

std::string Refused(const std::vector<std::string>& settings) {
  return CheckDeviceLimits(With(settings)).message();
}

TEST(DeviceLimits, TakeWhatTheKernelsTake) {
  EXPECT_EQ(Refused({}), "");
  EXPECT_EQ(Refused({"precision.param=bf16", "model.dim=1024", "model.heads=4"}), "");
  EXPECT_EQ(Refused({"precision.param=fp32", "model.dim=1024", "model.heads=2"}), "");
}

TEST(DeviceLimits, Bf16HasAtMost256ChannelsAHead) {
  EXPECT_THAT(Refused({"precision.param=bf16", "model.dim=1024", "model.heads=2"}),
              AllOf(HasSubstr("model.heads=2 gives 512 channels"), HasSubstr("at most 256"),
                    HasSubstr("use model.heads=4 or more, or precision.param=fp32")));
  // Its other divisors give channels that no kernel takes, or more heads than there may be.
  EXPECT_THAT(Refused({"precision.param=bf16", "model.dim=1048", "model.heads=1"}),
              HasSubstr("on a GPU: use precision.param=fp32"));
}

TEST(DeviceLimits, ChannelsComeInEights) {
  EXPECT_THAT(Refused({"model.dim=48", "model.heads=4"}),
              AllOf(HasSubstr("12 channels a head"), HasSubstr("use model.heads=6")));
  EXPECT_THAT(Refused({"model.dim=12", "model.heads=2"}), HasSubstr("a model.dim of such heads"));
}

TEST(DeviceLimits, Fp64IsForTheCpu) {
  EXPECT_THAT(Refused({"precision.param=fp64"}), HasSubstr("use fp32, bf16 or fp16"));
}

}  // namespace
}  // namespace shardscope::cuda
