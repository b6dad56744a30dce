// Settings that came with a checkpoint, beside those that are given over them.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

using Settings = std::map<std::string, std::string>;

// A run that goes on from a checkpoint with settings of its own.
Config GoesOn(const Settings& inherited, const Settings& given) {
  Config config;
  EXPECT_TRUE(config.SetAll(inherited).ok());
  config.Inherit();
  EXPECT_TRUE(config.SetAll(given).ok());
  SettleInherited(&config);
  return config;
}

std::string Refusal(const Config& config) {
  const Status status = config.Check();
  return (status.ok() ? CheckKeysOfStrategies(config) : status).message();
}

TEST(Inherited, KeysOfAnotherStrategyAreKeptWithoutEffect) {
  const Config changed = GoesOn({{"strategy", "zero1"}, {"accumulation", "no_sync"}}, {});
  EXPECT_EQ(Refusal(changed), "");
  EXPECT_EQ(changed.Get("accumulation"), "no_sync");  // for a change back
  EXPECT_TRUE(changed.IsExplicit("accumulation"));
  EXPECT_FALSE(changed.IsGiven("accumulation"));
  EXPECT_EQ(ToPolicy(changed).accumulation, plan::Accumulation());
  EXPECT_EQ(Refusal(GoesOn({{"strategy", "full"}, {"ddp.bucket_cap", "1MB"}}, {})), "");
  EXPECT_EQ(Refusal(GoesOn({{"accumulation", "no_sync"}}, {{"strategy", "zero1"}})), "");
  EXPECT_EQ(Refusal(GoesOn({{"strategy", "hybrid"}, {"accumulation", "reduce_scatter_only"}},
                           {{"strategy", "zero1"}})),
            "");
  EXPECT_EQ(Refusal(GoesOn({{"accumulation", "no_sync"}},
                           {{"strategy", "zero1"}, {"offload", "optimizer"}})),
            "");
  EXPECT_EQ(Refusal(GoesOn({{"optimizer.beta1", "0.8"}}, {{"optimizer.kind", "sgd"}})), "");
}

TEST(Inherited, WhatIsGivenMustHaveAnEffectUnlessItIsTheDefault) {
  const Settings before = {{"strategy", "zero1"}, {"accumulation", "no_sync"}};
  EXPECT_EQ(Refusal(GoesOn(before, {{"accumulation", "no_sync"}})),
            "accumulation=no_sync has no effect with strategy=zero1: leave it out, or set "
            "strategy=full");
  EXPECT_EQ(Refusal(GoesOn(before, {{"accumulation", "reduce"}})), "");
  EXPECT_EQ(Refusal(GoesOn({}, {{"strategy", "full"}, {"ddp.bucket_cap", "25MB"}})), "");
}

TEST(Inherited, AFaultBehindTheNewEndIsKeptWithoutEffect) {
  EXPECT_EQ(Refusal(GoesOn({{"fault.skip", "1:50"}}, {{"train.steps", "20"}})), "");
  EXPECT_EQ(Refusal(GoesOn({{"train.steps", "20"}}, {{"fault.skip", "1:50"}})),
            "fault.skip=1:50: there is no step 50 with train.steps=20, whose last is 19: name one "
            "of 0 to 19, or raise train.steps");
}

TEST(Inherited, WhatTheGivenStrategyContradictsIsDropped) {
  const Config resharded =
      GoesOn({{"reshard_after_forward", "true"}, {"strategy", "full"}}, {{"strategy", "grad_op"}});
  EXPECT_EQ(Refusal(resharded), "");
  EXPECT_EQ(resharded.Get("reshard_after_forward"), "false");
  const Config both =
      GoesOn({{"strategy", "full"}}, {{"strategy", "grad_op"}, {"reshard_after_forward", "true"}});
  EXPECT_NE(Refusal(both).find("set one of them only"), std::string::npos);
  const Config low = GoesOn({{"precision.keep_low_grads", "true"}, {"precision.reduce", "bf16"}},
                            {{"strategy", "zero1"}});
  EXPECT_EQ(Refusal(low), "");
  EXPECT_FALSE(low.IsExplicit("precision.keep_low_grads"));
  EXPECT_EQ(ToPolicy(low).accumulation, plan::Accumulation());
  const Config kept = GoesOn({{"precision.keep_low_grads", "true"}}, {{"strategy", "grad_op"}});
  EXPECT_TRUE(kept.GetBool("precision.keep_low_grads"));
}

TEST(Inherited, AfterUnsetAKeyIsAsIfNeverSet) {
  Config config;
  ASSERT_TRUE(config.SetAll({{"prefetch.limit", "5"}, {"preset", "fsdp1"}}).ok());
  config.Unset("prefetch.limit");
  EXPECT_FALSE(config.IsExplicit("prefetch.limit"));
  EXPECT_EQ(config.Get("prefetch.limit"), "2");
}

}  // namespace
}  // namespace shardscope::config
