// Which models a GPU refuses, and what the message proposes.
#include "engine/footprint/device_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/footprint/largest.h"
#include "engine/footprint/memory_choices.h"
#include "engine/footprint/memory_options.h"

namespace shardscope::footprint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

config::Config ConfigWith(const std::vector<std::string>& settings) {
  config::Config config;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    EXPECT_TRUE(config.Set(setting.substr(0, equals), setting.substr(equals + 1)).ok()) << setting;
  }
  EXPECT_TRUE(config.Check().ok());
  return config;
}

std::string Refused(std::vector<std::string> settings) {
  settings.emplace_back("run.device=cuda");
  return CheckDeviceLimits(ConfigWith(settings)).message();
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

// Whatever model.dim is: head_dim of config.json counts, and no model.heads is proposed.
TEST(DeviceLimits, AFolderSaysItsHeads) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("device-limits-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const auto refused = [&](int head_dim, const std::string& precision) {
    std::ofstream(folder / "config.json")
        << R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 48, "intermediate_size": 64,
               "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
               "vocab_size": 256, "rms_norm_eps": 1e-5, "head_dim": )"
        << head_dim << "}";
    return Refused({"model.path=" + folder.string(), "precision.param=" + precision});
  };
  EXPECT_EQ(refused(16, "bf16"), "") << "where 48 / 4 is no multiple of 8";
  EXPECT_THAT(refused(12, "fp32"),
              AllOf(HasSubstr("config.json gives 12 channels a head"), HasSubstr("run.device=cpu"),
                    Not(HasSubstr("model.heads"))));
  EXPECT_THAT(refused(512, "bf16"),
              AllOf(HasSubstr("gives 512 channels"), HasSubstr("use precision.param=fp32"),
                    Not(HasSubstr("model.heads"))));
  EXPECT_EQ(refused(512, "fp32"), "");
  fs::remove_all(folder);
}

TEST(DeviceLimits, WhatAGpuRefusesIsNotProposedThere) {
  const auto proposes = [](const config::Config& config, const Settings& settings) {
    for (const MemoryChoice& choice : MemoryChoices(config)) {
      if (choice.settings == settings) return true;
    }
    return false;
  };
  const std::vector<std::string> wide = {"model.dim=1024", "model.heads=2", "model.layers=1",
                                         "run.ranks=2"};
  const auto on = [&](const std::string& device) {
    std::vector<std::string> settings = wide;
    settings.push_back("run.device=" + device);
    return ConfigWith(settings);
  };
  const Settings eight_bits = {{"optimizer.state", "8bit"}};
  const Settings narrow = {{"precision.param", "bf16"}};
  EXPECT_TRUE(proposes(on("cpu"), eight_bits));
  EXPECT_TRUE(proposes(on("cpu"), narrow));
  EXPECT_FALSE(proposes(on("cuda"), eight_bits));
  EXPECT_FALSE(proposes(on("cuda"), narrow)) << "512 channels a head";
  EXPECT_TRUE(proposes(ConfigWith({"model.dim=1024", "model.heads=4", "model.layers=1",
                                   "run.ranks=2", "run.device=cuda"}),
                       narrow));
}

TEST(DeviceLimits, TheLargestModelIsOneThatAGpuTakes) {
  const config::Config config =
      ConfigWith({"model.dim=64", "model.heads=4", "run.ranks=2", "run.device=cuda"});
  const Largest largest = LargestThatFits(config, "model.dim", 200'000'000);
  ASSERT_GT(largest.value, 64);
  EXPECT_EQ(largest.value % (kChannelStep * 4), 0) << largest.value;
  EXPECT_TRUE(With(config, {{"model.dim", std::to_string(largest.value)}}).ok());
}

TEST(DeviceLimits, Fp64IsForTheCpu) {
  EXPECT_THAT(Refused({"precision.param=fp64"}), HasSubstr("use fp32, bf16 or fp16"));
}

TEST(DeviceLimits, AreThoseOfAGpu) {
  for (const std::string device : {"cpu", "auto"}) {
    EXPECT_TRUE(
        CheckDeviceLimits(ConfigWith({"precision.param=fp64", "run.device=" + device})).ok())
        << device;
    EXPECT_TRUE(
        CheckDeviceLimits(ConfigWith({"model.dim=48", "model.heads=4", "run.device=" + device}))
            .ok())
        << device;
  }
}

}  // namespace
}  // namespace shardscope::footprint
