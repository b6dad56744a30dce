#include "engine/model/initialize.h"

#include <ATen/ops/empty.h>
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

TEST(InitializeTest, WhatIsDrawnIsRoundedToTheTypeThatIsRead) {
  constexpr int64_t kFirst = 100, kCount = 70'000;  // more than is drawn at once
  const plan::Parameter parameter{"embedding.weight", {2000, 64}};
  const std::vector<double> drawn = InitialValues(kConfig, parameter, 1, kFirst, kCount);
  const DrawnParameters source(kConfig, 1);
  const auto read = [&](at::ScalarType type) {
    const at::Tensor values = at::empty({kCount}, type);
    source.Read(parameter, kFirst, values);
    return values;
  };
  const at::Tensor as_fp64 = read(at::kDouble);
  EXPECT_TRUE(std::equal(drawn.begin(), drawn.end(), as_fp64.const_data_ptr<double>()));
  EXPECT_TRUE(read(at::kFloat).equal(as_fp64.to(at::kFloat)));
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(read(type).equal(as_fp64.to(at::kFloat).to(type))) << type;
  }
}

}  // namespace
}  // namespace shardscope::model
