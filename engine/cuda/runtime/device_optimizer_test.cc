// The fused optimizer against ours.
#include "engine/cuda/runtime/device_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/model/initialize.h"

namespace shardscope::cuda {
namespace {

using runtime::ShardedUnit;

ShardedUnit MakeUnit(plan::DType master) {
  const model::ModelConfig config{.layers = 1, .dim = 24, .heads = 3, .seq = 16};
  const plan::ModelDescription description = model::DescribeModel(config, {}, 1);
  ShardedUnit unit(description.units[1], {.shard_ranks = 2, .shard_index = 1},
                   {.master = master, .gradient = master});
  unit.Initialize(model::DrawnParameters(config, 5));
  return unit;
}

void SetGradient(ShardedUnit* unit, uint64_t seed) {
  at::Tensor wide = unit->gradient().to(at::kDouble);
  auto* values = wide.mutable_data_ptr<double>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    values[i] = static_cast<double>(model::MixedBits(seed, static_cast<uint64_t>(i)) % 2001) - 1000;
  }
  unit->gradient().copy_(wide / 5000);
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

class FusedTest : public testing::TestWithParam<plan::DType> {};

TEST_P(FusedTest, EqualsOursOverManySteps) {
  for (const double clip : {0.0, 0.5, 1e9}) {
    ShardedUnit ours = MakeUnit(GetParam());
    ShardedUnit fused = MakeUnit(GetParam());
    const at::Tensor before = ours.parameters().clone();
    for (int64_t step = 0; step < 20; ++step) {
      SetGradient(&ours, static_cast<uint64_t>(step));
      SetGradient(&fused, static_cast<uint64_t>(step));
      const double squares = ours.GradientSquares();
      const at::Tensor device_squares = GradientSquares({&fused, 1}, at::kCPU);
      EXPECT_NEAR(device_squares.item<double>(), squares, 1e-6 * squares);
      ours.Update({.learning_rate = 1e-2,
                   .gradient_scale = model::ClipScale(std::sqrt(squares), clip),
                   .step = step});
      const DeviceUpdate update{
          .squares = device_squares, .clip = clip, .args = {.learning_rate = 1e-2, .step = step}};
      UpdateFused(update.args, ScalarsOf(update), &fused);
    }
    EXPECT_LE(Difference(fused.parameters(), ours.parameters()), 2e-6) << "clip " << clip;
    EXPECT_LE(Difference(fused.Slices()[0].state[1].values, ours.Slices()[0].state[1].values), 2e-6)
        << "clip " << clip;
    EXPECT_GT(Difference(ours.parameters(), before), 1e-3);
  }
}

// On the CPU the kernel does not look at found_inf; it does on CUDA. What holds on both: the host
// reads a norm that is not finite.
TEST_P(FusedTest, AGradientThatIsNotFiniteShowsInTheNorm) {
  ShardedUnit unit = MakeUnit(GetParam());
  SetGradient(&unit, 1);
  unit.gradient()[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(GradientSquares({&unit, 1}, at::kCPU).item<double>()));
}

// A stage of a pipeline, or a rank beside others that have the adapters whole.
TEST(DeviceGradients, HaveNoSquaresWhereNothingIsTrained) {
  const model::ModelConfig config{
      .layers = 1, .dim = 24, .heads = 3, .seq = 16, .frozen = {"blocks"}};
  const plan::ModelDescription description = model::DescribeModel(config, {}, 1);
  ShardedUnit unit(description.units[1], {.shard_ranks = 2, .shard_index = 1}, {});
  unit.Initialize(model::DrawnParameters(config, 5));
  const at::Tensor before = unit.parameters().clone();
  const at::Tensor squares = GradientSquares({&unit, 1}, at::kCPU);
  EXPECT_EQ(squares.scalar_type(), at::kDouble);
  EXPECT_EQ(squares.numel(), 1);
  EXPECT_EQ(squares.item<double>(), 0);
  const DeviceUpdate update{.squares = squares, .clip = 1, .args = {.learning_rate = 1e-2}};
  UpdateFused(update.args, ScalarsOf(update), &unit);
  EXPECT_TRUE(at::equal(unit.parameters(), before));
}

INSTANTIATE_TEST_SUITE_P(All, FusedTest, testing::Values(plan::DType::kFp32, plan::DType::kFp64),
                         [](const auto& tested) { return std::string(plan::Name(tested.param)); });

}  // namespace
}  // namespace shardscope::cuda
