// Which keys have an effect with which strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

TEST(Keys, ApplyToStrategiesThatHaveWhatTheySay) {
  const auto strategies = [](std::string_view key) {
    std::vector<std::string_view> names;
    for (const plan::Strategy& strategy : plan::Strategies()) {
      if (Applies(key, strategy)) names.push_back(strategy.name);
    }
    return names;
  };
  using testing::ElementsAre;
  EXPECT_THAT(strategies("zero.reduce_bucket_size"), ElementsAre("zero1", "zero2"));
  EXPECT_THAT(strategies("zero.overlap_comm"), ElementsAre("zero1", "zero2", "zero3"));
  EXPECT_THAT(strategies("zero.prefetch_bucket_size"), ElementsAre("zero3"));
  EXPECT_THAT(strategies("zero.persistence_threshold"), ElementsAre("zero3"));
  EXPECT_THAT(strategies("prefetch.limit"),
              ElementsAre("full", "grad_op", "hybrid", "hybrid_grad_op"));
  EXPECT_THAT(strategies("unit.policy"),
              ElementsAre("full", "grad_op", "no_shard", "hybrid", "hybrid_grad_op", "single",
                          "model_parallel", "pipeline", "tensor", "data_parallel", "zero3"));
  EXPECT_THAT(
      strategies("pipeline.schedule"),
      ElementsAre("full", "grad_op", "hybrid", "hybrid_grad_op", "pipeline", "ddp", "zero1"));
  EXPECT_THAT(strategies("mesh.tensor"), ElementsAre("full", "grad_op", "hybrid", "hybrid_grad_op",
                                                     "pipeline", "tensor", "ddp"));
  EXPECT_EQ(strategies("tensor.sequence_parallel"), strategies("mesh.tensor"));
  EXPECT_EQ(strategies("tensor.async"), strategies("mesh.tensor"));
  EXPECT_THAT(strategies("mesh.pipeline"),
              ElementsAre("full", "grad_op", "hybrid", "hybrid_grad_op", "model_parallel",
                          "pipeline", "ddp", "zero1"));
}

TEST(Keys, SequenceParallelIsOfTensorRanks) {
  Config config;
  ASSERT_TRUE(
      config
          .SetAll({{"run.ranks", "4"}, {"mesh.tensor", "2"}, {"tensor.sequence_parallel", "true"}})
          .ok());
  ASSERT_TRUE(config.Check().ok());
  EXPECT_TRUE(ToPolicy(config).units.sequence_parallel);
  // Live, and left behind by a strategy that has no such ranks.
  ASSERT_TRUE(ApplyLive({{"tensor.sequence_parallel", "false"}}, &config).ok());
  EXPECT_FALSE(ToPolicy(config).units.sequence_parallel);
  ASSERT_TRUE(ApplyLive({{"tensor.sequence_parallel", "true"}}, &config).ok());
  ASSERT_TRUE(ApplyLive({{"strategy", "zero2"}, {"mesh.tensor", "1"}}, &config).ok());
  EXPECT_FALSE(ToPolicy(config).units.sequence_parallel);
  Config of_another;
  ASSERT_TRUE(
      of_another.SetAll({{"strategy", "zero2"}, {"tensor.sequence_parallel", "true"}}).ok());
  EXPECT_EQ(CheckKeysOfStrategies(of_another).message(),
            "tensor.sequence_parallel=true has no effect with strategy=zero2: leave it out, or set "
            "strategy=full");
}

TEST(Keys, OfAnotherStrategyAreRefusedAtTheStart) {
  Config config;
  ASSERT_TRUE(config.Set("ddp.bucket_cap", "1MB").ok());
  EXPECT_EQ(CheckKeysOfStrategies(config).message(),
            "ddp.bucket_cap=1MB has no effect with strategy=full: leave it out, or set "
            "strategy=ddp");
  Config chosen = config;
  ASSERT_TRUE(chosen.Set("strategy", "ddp").ok());
  EXPECT_TRUE(CheckKeysOfStrategies(chosen).ok());
  config.AddChange({.step = 3, .set = {{"strategy", "ddp"}}});
  EXPECT_TRUE(CheckKeysOfStrategies(config).ok());  // it will have one
}

}  // namespace
}  // namespace shardscope::config
