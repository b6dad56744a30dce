// What becomes of run.device where the plugin is there and its device cannot be used.
#include "engine/cuda/plugin/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::cuda {
namespace {

using config::DeviceKind;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kMissing = "LibTorch's CUDA libraries cannot be loaded";

const PluginApi* WithoutLibTorch() {
  static const PluginApi api = {
      .build = BuildName(),
      .open_device = [](const DeviceOptions&) -> Result<std::unique_ptr<runtime::Device>> {
        return Status::Error(kMissing);
      }};
  return &api;
}

DeviceChoice Chosen(DeviceKind wanted) {
  return {.wanted = wanted,
          .device = DeviceKind::kCuda,
          .plugin = WithoutLibTorch(),
          .warnings = {"a setting that slows CUDA down"}};
}

TEST(OpenDevice, AutoBecomesTheCpuAndSaysWhy) {
  DeviceChoice choice = Chosen(DeviceKind::kAuto);
  const auto device = OpenDevice({}, &choice);
  ASSERT_TRUE(device.ok()) << device.message();
  EXPECT_EQ((*device)->kind(), DeviceKind::kCpu);
  EXPECT_EQ(choice.device, DeviceKind::kCpu);
  EXPECT_EQ(choice.why_not_cuda, kMissing);
  EXPECT_EQ(choice.plugin, nullptr);
  EXPECT_TRUE(choice.warnings.empty());  // of what is not used
}

TEST(OpenDevice, CudaIsAnErrorWithWhatStillWorks) {
  DeviceChoice choice = Chosen(DeviceKind::kCuda);
  const auto device = OpenDevice({}, &choice);
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.message(), AllOf(StartsWith("run.device=cuda: " + std::string(kMissing)),
                                      HasSubstr("run.device=cpu trains the same schedules")));
}

TEST(OpenDevice, TheCpuNeedsNoPlugin) {
  DeviceChoice choice;
  const auto device = OpenDevice({}, &choice);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->kind(), DeviceKind::kCpu);
  EXPECT_TRUE((*device)->copies_take_memory());
  EXPECT_EQ(choice.why_not_cuda, "");
}

}  // namespace
}  // namespace shardscope::cuda
