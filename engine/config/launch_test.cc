// What the variables of a launcher mean, and what goes with them.
#include "engine/config/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace shardscope::config {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

const Variables kSecondOfTwo = {
    {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};

Result<std::optional<Launch>> Read(const Variables& variables) {
  return ReadLaunch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchTest, WithoutVariablesThereIsNone) {
  const auto none = Read({{"MASTER_ADDR", "x"}, {"LOCAL_RANK", "0"}});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(LaunchTest, ReadsPlainVariablesAndThoseOfTorchrun) {
  const auto plain = Read(kSecondOfTwo);
  ASSERT_TRUE(plain.ok() && plain->has_value()) << plain.message();
  EXPECT_EQ((*plain)->rank, 1);
  EXPECT_EQ((*plain)->num_ranks, 2);
  EXPECT_EQ((*plain)->num_local_ranks, 2);
  EXPECT_EQ((*plain)->master_address, "127.0.0.1");
  EXPECT_EQ((*plain)->master_port, 29500);
  EXPECT_FALSE((*plain)->has_launcher_store);
  Variables torchrun = kSecondOfTwo;
  torchrun["LOCAL_WORLD_SIZE"] = "1";
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "3";
  const auto launch = Read(torchrun);
  ASSERT_TRUE(launch.ok() && launch->has_value()) << launch.message();
  EXPECT_EQ((*launch)->num_local_ranks, 1);
  EXPECT_TRUE((*launch)->has_launcher_store);
  EXPECT_EQ((*launch)->attempt, "3");
}

TEST(LaunchTest, EveryMissingOrWrongVariableIsNamed) {
  for (const auto& [name, value] : kSecondOfTwo) {
    Variables without = kSecondOfTwo;
    without.erase(name);
    EXPECT_THAT(Read(without).message(), HasSubstr(name + " is not set"));
    if (name == "MASTER_ADDR") continue;
    for (const char* wrong : {"many", "-1", "1x", "70000"}) {
      Variables with = kSecondOfTwo;
      with[name] = wrong;
      EXPECT_THAT(Read(with).message(), HasSubstr(name + "=" + wrong));
    }
  }
}

TEST(LaunchTest, RanksAndTransportFollowTheLauncher) {
  const Launch launch = **Read(kSecondOfTwo);
  Config config;
  ASSERT_TRUE(ApplyLaunch(launch, &config).ok());
  EXPECT_EQ(config.GetInt("run.ranks"), 2);
  EXPECT_EQ(config.Get("transport"), "gloo");
  EXPECT_TRUE(config.Check().ok());
  EXPECT_TRUE(ApplyLaunch(launch, &config).ok());
}

TEST(LaunchTest, WhatContradictsItIsRefused) {
  const Launch launch = **Read(kSecondOfTwo);
  const std::map<std::string, std::string> cases[] = {{{"run.ranks", "3"}},
                                                      {{"transport", "shared_memory"}},
                                                      {{"transport", "emulated"}},
                                                      {{"link.bandwidth", "1MB/s"}}};
  for (const auto& values : cases) {
    Config config;
    ASSERT_TRUE(config.SetAll(values).ok());
    const Status status = ApplyLaunch(launch, &config);
    ASSERT_FALSE(status.ok()) << values.begin()->first;
    EXPECT_THAT(status.message(), testing::AnyOf(HasSubstr("run.ranks=3"), HasSubstr("gloo")));
  }
}

}  // namespace
}  // namespace shardscope::config
