// Settings that came with a checkpoint, beside those that are given over them.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

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

struct Move {
  Settings inherited;
  Settings given;
  std::string gave_way;
};

// What is given is a run that can be trained, whatever the checkpoint's had.
TEST(Inherited, WhatDoesNotGoWithTheGivenGivesWayAndIsNamed) {
  const Settings hybrid = {{"strategy", "hybrid"}, {"mesh.replicate", "2"}};
  const Settings shares = {{"strategy", "full"}, {"mesh.tensor", "2"}};
  const Settings stages = {{"strategy", "full"}, {"mesh.pipeline", "2"}};
  const Settings offloads = {{"strategy", "full"}, {"offload", "all"}};
  const Settings splits = {{"mesh.tensor", "2"}, {"tensor.sequence_parallel", "true"}};
  const std::string one_replica = "mesh.replicate=2 (now 1)";
  const std::string one_part = "mesh.tensor=2 (now 1)";
  const std::string one_stage = "mesh.pipeline=2 (now 1)";
  const std::string on_device = "offload=all (now none)";
  const std::vector<Move> moves = {
      {hybrid, {{"strategy", "full"}}, one_replica},
      {hybrid, {{"strategy", "zero2"}}, one_replica},
      {hybrid, {{"strategy", "tensor"}}, one_replica},
      {hybrid, {{"strategy", "pipeline"}}, one_replica},
      {hybrid, {{"strategy", "single"}, {"run.ranks", "1"}}, one_replica},
      {hybrid, {{"strategy", "ddp"}}, "mesh.replicate=2 (now auto)"},
      {hybrid, {{"strategy", "ddp"}, {"run.ranks", "3"}}, "mesh.replicate=2 (now auto)"},
      {hybrid, {{"strategy", "hybrid_grad_op"}}, ""},
      {hybrid, {{"run.ranks", "3"}}, "mesh.replicate=2 (now 3)"},
      {{{"strategy", "hybrid"}, {"mesh.replicate", "2"}, {"mesh.shard", "2"}},
       {{"strategy", "ddp"}},
       "mesh.replicate=2 (now auto), mesh.shard=2 (now 1)"},
      {shares, {{"run.ranks", "3"}}, one_part},
      {shares, {{"strategy", "zero2"}}, one_part},
      {shares, {{"strategy", "pipeline"}, {"run.ranks", "3"}}, one_part},
      {shares, {{"strategy", "single"}, {"run.ranks", "1"}}, one_part},
      {shares, {{"strategy", "ddp"}}, ""},
      {stages, {{"run.ranks", "1"}}, one_stage},
      {stages, {{"strategy", "ddp"}, {"run.ranks", "3"}}, one_stage},
      {stages, {{"strategy", "zero2"}, {"run.ranks", "3"}}, one_stage},
      {stages, {{"strategy", "tensor"}}, one_stage},
      {stages, {{"strategy", "single"}, {"run.ranks", "1"}}, one_stage},
      {{{"preset", "double_buffer"}},
       {{"strategy", "grad_op"}},
       "preset=double_buffer (now fsdp2)"},
      {{{"unit.root", "true"}}, {{"strategy", "pipeline"}}, "unit.root=true (now false)"},
      {{{"unit.policy", "module"}},
       {{"preset", "double_buffer"}},
       "unit.policy=module (now block)"},
      {offloads, {{"strategy", "ddp"}}, on_device},
      {offloads, {{"strategy", "zero2"}}, on_device},
      {offloads, {{"strategy", "tensor"}}, on_device},
      {offloads, {{"strategy", "zero3"}}, ""},
      {{{"strategy", "hybrid"}, {"accumulation", "reduce_scatter_only"}},
       {{"strategy", "full"}},
       "accumulation=reduce_scatter_only (now reduce)"},
      {{{"accumulation", "no_sync"}}, {{"offload", "optimizer"}}, ""},
      {splits, {{"mesh.tensor", "1"}}, "tensor.sequence_parallel=true (now false)"},
      {splits,
       {{"run.ranks", "3"}},
       "mesh.tensor=2 (now 1), tensor.sequence_parallel=true (now false)"},
      {{{"reshard_after_forward", "2"}},
       {{"run.ranks", "3"}},
       "reshard_after_forward=2 (now true)"},
      {{{"fault.delay", "3:20ms"}}, {{"run.ranks", "2"}}, "fault.delay=3:20ms (now empty)"},
      // 2 shards go with 8 ranks only where both of the others stay.
      {{{"strategy", "hybrid"},
        {"mesh.replicate", "2"},
        {"mesh.shard", "1"},
        {"mesh.pipeline", "2"},
        {"mesh.tensor", "2"},
        {"run.ranks", "8"}},
       {{"strategy", "full"}, {"mesh.shard", "2"}},
       one_replica},
  };
  for (const Move& move : moves) {
    Config config;
    ASSERT_TRUE(config.SetAll(move.inherited).ok());
    config.Inherit();
    ASSERT_EQ(Refusal(config), "");
    ASSERT_TRUE(config.SetAll(move.given).ok());
    SCOPED_TRACE(testing::PrintToString(move.inherited) + " " + testing::PrintToString(move.given));
    EXPECT_EQ(SettleInherited(&config), move.gave_way);
    EXPECT_EQ(Refusal(config), "");
    for (const auto& [key, value] : move.given) EXPECT_EQ(config.Get(key), value);
  }
}

// Its model, what it learns from, and what is given are never changed.
TEST(Inherited, WhatIsLearnedDoesNotGiveWay) {
  EXPECT_EQ(Refusal(GoesOn({{"model.heads", "4"}, {"mesh.tensor", "2"}}, {{"mesh.tensor", "4"}})),
            "");
  EXPECT_NE(Refusal(GoesOn({{"model.heads", "2"}, {"mesh.tensor", "2"}}, {{"mesh.tensor", "4"}})),
            "");
  EXPECT_NE(Refusal(GoesOn({{"strategy", "ddp"}}, {{"offload", "all"}})).find("strategy=ddp"),
            std::string::npos);
  // Kept gradients are arithmetic.
  const Config kept = GoesOn({{"precision.keep_low_grads", "true"}}, {{"offload", "optimizer"}});
  EXPECT_EQ(Refusal(kept),
            "offload=optimizer has gradients on the host in the type of the weights, and does not "
            "go with precision.keep_low_grads=true: set precision.keep_low_grads=false, or "
            "offload=none");
}

// Where nothing helps, what is said is of the settings as they came.
TEST(Inherited, AnErrorThatNothingMendsIsOfAllSettings) {
  const Config config = GoesOn({{"run.ranks", "4"}, {"mesh.tensor", "2"}}, {{"mesh.shard", "3"}});
  EXPECT_EQ(config.Get("mesh.tensor"), "2");
  EXPECT_NE(Refusal(config).find("mesh.shard=3"), std::string::npos);
  EXPECT_NE(Refusal(config).find("mesh.tensor=2"), std::string::npos);
}

// Three have to, and the others stay.
TEST(Inherited, OfManyKeysThoseStayThatCan) {
  Config config;
  ASSERT_TRUE(config
                  .SetAll({{"strategy", "hybrid"},
                           {"mesh.replicate", "2"},
                           {"prefetch.backward", "none"},
                           {"prefetch.forward", "1"},
                           {"accumulation", "reduce_scatter_only"},
                           {"unit.policy", "module"},
                           {"checkpointing", "full"},
                           {"fault.delay", "3:20ms"},
                           {"run.ranks", "4"}})
                  .ok());
  config.Inherit();
  ASSERT_EQ(Refusal(config), "");
  ASSERT_TRUE(config.SetAll({{"strategy", "full"}, {"run.ranks", "2"}}).ok());
  EXPECT_EQ(SettleInherited(&config),
            "mesh.replicate=2 (now 1), accumulation=reduce_scatter_only (now reduce), "
            "fault.delay=3:20ms (now empty)");
  EXPECT_EQ(Refusal(config), "");
}

TEST(Inherited, ListedChangesGiveWayKeyByKey) {
  Config config;
  config.AddChange({.step = 3, .set = {{"offload", "all"}, {"train.lr", "0.01"}}});
  config.AddChange({.step = 5, .set = {{"offload", "none"}}});
  config.AddChange({.step = 6, .set = {{"offload", "all"}}});
  config.Inherit();
  ASSERT_EQ(Refusal(config), "");
  ASSERT_TRUE(config.SetAll({{"strategy", "zero2"}}).ok());
  EXPECT_EQ(SettleInherited(&config),
            "offload=all of the change at step 3 (left out), offload=all of the change at step 6 "
            "(left out)");
  EXPECT_EQ(Refusal(config), "");
  ASSERT_EQ(config.changes().size(), 2u);
  EXPECT_EQ(config.changes()[0].set, (Settings{{"train.lr", "0.01"}}));
  EXPECT_EQ(config.changes()[1].set, (Settings{{"offload", "none"}}));
}

TEST(Inherited, ChangesThatAreGivenStay) {
  Config config;
  config.Inherit();
  config.AddChange({.step = 3, .set = {{"offload", "all"}}});
  ASSERT_TRUE(config.SetAll({{"strategy", "zero2"}}).ok());
  EXPECT_EQ(SettleInherited(&config), "");
  EXPECT_NE(Refusal(config).find("change at step 3: offload=all"), std::string::npos);
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
