#include "engine/model/initialize.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardscope::model {
namespace {

const ModelConfig kConfig{.layers = 2, .dim = 64, .heads = 4, .seq = 8};

TEST(InitializeTest, AnySliceIsThatSliceOfTheWhole) {
  const plan::Parameter parameter{"block0.mlp.up.weight", {256, 64}};
  const auto whole = InitialValues(kConfig, parameter, 1, 0, 256 * 64);
  const auto slice = InitialValues(kConfig, parameter, 1, 1000, 50);
  EXPECT_TRUE(std::equal(slice.begin(), slice.end(), whole.begin() + 1000));
}

TEST(InitializeTest, SeedAndNameMatterAndTheSpreadIsAsDocumented) {
  const plan::Parameter up{"block0.mlp.up.weight", {256, 64}};
  const plan::Parameter other{"block1.mlp.up.weight", {256, 64}};
  const auto values = InitialValues(kConfig, up, 1, 0, 256 * 64);
  EXPECT_NE(values, InitialValues(kConfig, up, 2, 0, 256 * 64));
  EXPECT_NE(values, InitialValues(kConfig, other, 1, 0, 256 * 64));
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 0.005);
  EXPECT_NEAR(std::sqrt(squares / count), 1 / 8.0, 0.005);
  EXPECT_EQ(InitialValues(kConfig, {"head.norm.weight", {64}}, 1, 0, 3),
            (std::vector<double>{1, 1, 1}));
}

}  // namespace
}  // namespace shardscope::model
