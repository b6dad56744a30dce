// The plugin as a program opens it: it loads without a driver, fits this build, and says cleanly
// that there is no GPU.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/cuda/plugin/plugin.h"
#include "tests/places.h"

namespace shardscope::cuda {
namespace {

const PluginApi* Load(int mode) {
  void* const library = dlopen((BinDir() + "/libshardscope_cuda.so").c_str(), mode | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginSymbol));
  EXPECT_NE(entry, nullptr);
  return entry == nullptr ? nullptr : entry();
}

// At once, not when first used: nothing of CUDA or LibTorch's CUDA side is missing at load.
TEST(Plugin, LoadsWithEverySymbolAndFitsThisBuild) {
  const PluginApi* plugin = Load(RTLD_NOW);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(plugin->version, kPluginVersion);
  EXPECT_STREQ(plugin->build, BuildName());
}

TEST(Plugin, WithoutADriverItSaysSo) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  const PluginApi* plugin = Load(RTLD_LAZY);
  ASSERT_NE(plugin, nullptr);
  config::Config config;
  const Result<std::unique_ptr<runtime::Device>> device = plugin->open_device({.config = config});
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.message(), testing::HasSubstr("no GPU can be used"));
  EXPECT_THAT(device.message(), testing::HasSubstr("driver"));
}

}  // namespace
}  // namespace shardscope::cuda
