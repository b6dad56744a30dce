// Which keys shape a Schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

TEST(Keys, ThatShapeASchedule) {
  std::vector<std::string> names;
  for (const KeyInfo& key : AllKeys()) {
    if (key.shapes_schedule) names.push_back(key.name);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray({
                         "preset",
                         "strategy",
                         "mesh.replicate",
                         "mesh.shard",
                         "mesh.pipeline",
                         "mesh.tensor",
                         "tensor.sequence_parallel",
                         "tensor.async",
                         "pipeline.schedule",
                         "pipeline.chunks",
                         "reshard_after_forward",
                         "prefetch.backward",
                         "prefetch.backward_depth",
                         "prefetch.forward",
                         "prefetch.forward_list",
                         "prefetch.backward_list",
                         "prefetch.limit",
                         "host.run_ahead",
                         "unit.root",
                         "checkpointing",
                         "offload",
                         "ddp.bucket_cap",
                         "zero.reduce_bucket_size",
                         "zero.overlap_comm",
                         "zero.prefetch_bucket_size",
                         "zero.max_live_parameters",
                         "zero.max_reuse_distance",
                         "zero.persistence_threshold",
                         "comm.communicators",
                         "precision.param",
                         "precision.reduce",
                         "precision.keep_low_grads",
                         "scaler.enabled",
                         "accumulation",
                         "reshard_after_backward",
                         "is_last_backward",
                         "run.ranks",
                         "model.layers",
                         "train.micro_batches",
                         "train.clip",
                         "optimizer.kind",
                         "optimizer.momentum",
                         "optimizer.state",
                     }));
}

TEST(Keys, ThatSayWhichModelIsTrained) {
  std::vector<std::string> names;
  for (const KeyInfo& key : AllKeys()) {
    if (key.is_of_model) names.push_back(key.name);
    EXPECT_FALSE(key.is_of_model && key.shapes_schedule) << key.name;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray({
                         "unit.policy",
                         "model.kind",
                         "model.dim",
                         "model.heads",
                         "model.kv_heads",
                         "model.ffn",
                         "model.vocab",
                         "model.seq",
                         "train.batch",
                         "train.logits_block",
                         "train.frozen",
                         "lora.rank",
                         "lora.alpha",
                         "lora.targets",
                     }));
}

// Other values of a key than its default, few of them.
std::vector<std::string> OtherValues(const KeyInfo& key) {
  switch (key.type) {
    case KeyType::kChoice:
      return key.choices;
    case KeyType::kBool:
      return {"true", "false"};
    case KeyType::kInt:
    case KeyType::kFloat:
      return {"0", "1", "2"};
    case KeyType::kBytes:
      return {"1MB"};
    default:
      break;
  }
  if (key.name == "checkpointing") return {"full"};
  if (key.name.starts_with("prefetch.")) return {"block0:block1+block2"};
  return key.name.starts_with("mesh.") ? std::vector<std::string>{"2"} : std::vector<std::string>{};
}

TEST(Keys, ShapeAScheduleWhereTheyMakeAnotherPolicy) {
  int tried = 0;
  for (const plan::Strategy& strategy : plan::Strategies()) {
    Config base;
    ASSERT_TRUE(base.Set("strategy", strategy.name).ok());
    if (strategy.dimensions == 0) {
      ASSERT_TRUE(base.Set("run.ranks", "1").ok());
    }
    ASSERT_TRUE(base.Check().ok()) << base.Check().message();
    const plan::Policy before = ToPolicy(base);
    for (const KeyInfo& key : AllKeys()) {
      for (const std::string& value : OtherValues(key)) {
        Config config = base;
        if (!config.Set(key.name, value).ok() || !config.Check().ok()) continue;
        if (ToPolicy(config) == before) continue;
        ++tried;
        EXPECT_TRUE(key.shapes_schedule) << key.name << "=" << value << " with " << strategy.name;
      }
    }
  }
  EXPECT_GT(tried, 100);
  // A key of a model: of one whose units are given it shapes no Schedule.
  Config config;
  ASSERT_TRUE(config.Set("unit.policy", "module").ok());
  EXPECT_NE(ToPolicy(config), ToPolicy(Config()));
  EXPECT_FALSE(FindKey("unit.policy")->shapes_schedule);
}

}  // namespace
}  // namespace shardscope::config
