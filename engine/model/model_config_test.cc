#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/model_config.h"

namespace shardscope::model {
namespace {

std::vector<std::string> UnitNames(const plan::ModelDescription& description) {
  std::vector<std::string> names;
  for (const plan::Unit& unit : description.units) names.push_back(unit.name);
  return names;
}

TEST(DescribeModelTest, GroupsBlocksAndRootAsAsked) {
  const ModelConfig config{.layers = 3, .dim = 8, .heads = 2, .seq = 4};
  EXPECT_THAT(UnitNames(DescribeModel(config, {1, false}, 1)),
              testing::ElementsAre("embedding", "block0", "block1", "block2", "head"));
  EXPECT_THAT(UnitNames(DescribeModel(config, {2, true}, 1)),
              testing::ElementsAre("root", "blocks0-1", "block2"));
  const auto root = DescribeModel(config, {1, true}, 1);
  EXPECT_TRUE(root.units[0].is_root);
  EXPECT_FALSE(root.units[1].is_root);
  EXPECT_EQ(root.segments.front().units, root.segments.back().units);
  EXPECT_THAT(root.units[0].parameters,
              testing::ElementsAre(plan::Parameter{"embedding.weight", {256, 8}},
                                   plan::Parameter{"head.norm.weight", {8}},
                                   plan::Parameter{"head.weight", {256, 8}}));
}

TEST(DescribeModelTest, SmallParametersAreAUnitOfTheirOwn) {
  const ModelConfig config{.layers = 2, .dim = 8, .heads = 2, .seq = 4};
  const auto apart = DescribeModel(config, {.persistence_threshold = 9}, 1);
  EXPECT_THAT(UnitNames(apart),
              testing::ElementsAre("embedding", "persistent", "block0", "block1", "head"));
  EXPECT_EQ(apart.units[1].parameters.size(), 5U);  // the norms
  EXPECT_EQ(plan::UnitElements(apart.units[1]), 5 * 8);
  EXPECT_EQ(apart.segments[0].units, std::vector<int32_t>{0});
  EXPECT_EQ(apart.segments[2].units, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(apart.segments.back().units, (std::vector<int32_t>{1, 4}));
  EXPECT_THAT(UnitNames(DescribeModel(config, {.persistence_threshold = 1'000'000}, 1)),
              testing::ElementsAre("persistent"));
}

TEST(DescribeModelTest, ModulesAreUnitsAsChosen) {
  const ModelConfig config = {.layers = 2, .dim = 8, .heads = 2, .seq = 4};
  EXPECT_THAT(UnitNames(DescribeModel(config, {.modules = true}, 1)),
              testing::ElementsAre("embedding", "block0.attention", "block0.mlp",
                                   "block1.attention", "block1.mlp", "head"));
  EXPECT_THAT(UnitNames(DescribeModel(config, {.root = true, .modules = true}, 1)),
              testing::ElementsAre("root", "block0.attention", "block0.mlp", "block1.attention",
                                   "block1.mlp"));
  // Attention has 4*64 + 8 elements, the MLP 8*64 + 8, embedding 2048 and head 2056.
  EXPECT_THAT(UnitNames(DescribeModel(config, {.least_elements = 264}, 1)),
              testing::ElementsAre("embedding", "block0.attention", "block0.mlp",
                                   "block1.attention", "block1.mlp", "head"));
  EXPECT_THAT(UnitNames(DescribeModel(config, {.least_elements = 265}, 1)),
              testing::ElementsAre("embedding", "root", "block0.mlp", "block1.mlp", "head"));
  EXPECT_THAT(UnitNames(DescribeModel(config, {.least_elements = 784}, 1)),
              testing::ElementsAre("embedding", "block0", "block1", "head"));
  EXPECT_THAT(UnitNames(DescribeModel(config, {.least_elements = 785}, 1)),
              testing::ElementsAre("embedding", "root", "head"));
  const auto listed = DescribeModel(config, {.names = {"block1", "block1.mlp"}}, 1);
  EXPECT_THAT(UnitNames(listed), testing::ElementsAre("root", "block1", "block1.mlp"));
  EXPECT_TRUE(listed.units.front().is_root);
}

TEST(DescribeModelTest, TheExampleOfTheDesignHas19MillionParameters) {
  const auto description =
      DescribeModel({.layers = 6, .dim = 512, .heads = 8, .seq = 128}, plan::UnitPolicy(), 1);
  int64_t elements = 0;
  for (const plan::Unit& unit : description.units) elements += plan::UnitElements(unit);
  EXPECT_NEAR(static_cast<double>(elements), 19.1e6, 0.05e6);
}

}  // namespace
}  // namespace shardscope::model
