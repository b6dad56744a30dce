// Updates against LibTorch's own kernels, which torch.optim calls, and state in blocks.
#include "engine/runtime/units/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "engine/model/initialize.h"
#include "engine/model/segments.h"
#include "engine/plan/formats.h"
#include "engine/runtime/units/arithmetic.h"
#include "engine/runtime/units/state_blocks.h"

namespace shardscope::runtime {
namespace {

using plan::DType;
using plan::OptimizerKind;

constexpr int64_t kElements = 3000;  // several blocks, the last one not full
constexpr double kRate = 1e-2;

// From -1 to 1, over several decades.
at::Tensor Numbers(uint64_t seed, at::ScalarType type) {
  std::vector<double> values;
  for (int64_t i = 0; i < kElements; ++i) {
    const auto bits = model::MixedBits(seed, static_cast<uint64_t>(i));
    const double one = static_cast<double>(bits % 2001) / 1000 - 1;
    values.push_back(one * std::pow(10.0, -static_cast<double>(bits / 2001 % 4)));
  }
  return at::tensor(values, at::kDouble).to(type);
}

struct Trained {
  at::Tensor parameters;
  std::vector<at::Tensor> state;
};

// What `steps` updates by ours make of it; `gradient`: in which dtype gradients are.
template <typename T>
Trained TrainOurs(const model::OptimizerSettings& optimizer, DType gradient, plan::StateForm form,
                  int64_t steps, double gradient_scale = 1) {
  const at::ScalarType type = sizeof(T) == 8 ? at::kDouble : at::kFloat;
  Trained trained{.parameters = Numbers(1, type)};
  UpdateMemory<T> memory{.parameters = trained.parameters.mutable_data_ptr<T>(),
                         .gradient_dtype = gradient,
                         .elements = kElements};
  const size_t tensors = plan::StateTensorsOf(optimizer.kind, form, optimizer.momentum > 0).size();
  const bool has_blocks = form == plan::StateForm::kBlocks;
  std::vector<at::Tensor> scales;
  for (size_t tensor = 0; tensor < tensors; ++tensor) {
    trained.state.push_back(at::zeros({kElements}, has_blocks ? at::kByte : type));
    scales.push_back(at::zeros({plan::NumStateBlocks(kElements)}, at::kFloat));
    memory.state[tensor] = {trained.state.back().mutable_data_ptr(),
                            has_blocks ? scales.back().mutable_data_ptr<float>() : nullptr};
  }
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor gradients =
        Numbers(static_cast<uint64_t>(100 + step), model::ScalarTypeOf(gradient));
    memory.gradient = gradients.const_data_ptr();
    Update<T>(memory, {.optimizer = optimizer,
                       .learning_rate = kRate,
                       .gradient_scale = gradient_scale,
                       .step = step});
  }
  return trained;
}

Trained TrainTorchs(const model::OptimizerSettings& optimizer, at::ScalarType type, DType gradient,
                    int64_t steps) {
  Trained trained{.parameters = Numbers(1, type)};
  for (int i = 0; i < 2; ++i) trained.state.push_back(at::zeros({kElements}, type));
  const std::vector<at::Tensor> parameters = {trained.parameters};
  const std::vector<at::Tensor> first = {trained.state[0]};
  const std::vector<at::Tensor> second = {trained.state[1]};
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<at::Tensor> gradients = {
        Numbers(static_cast<uint64_t>(100 + step), model::ScalarTypeOf(gradient)).to(type)};
    if (optimizer.kind == OptimizerKind::kSgd) {
      const bool has_momentum = optimizer.momentum > 0;
      at::_fused_sgd_(parameters, gradients,
                      has_momentum ? at::TensorList(first) : at::TensorList(),
                      optimizer.weight_decay, optimizer.momentum, kRate, 0, false, false,
                      /*is_first_step=*/step == 0, {}, {});
      continue;
    }
    const std::vector<at::Tensor> counts = {
        at::full({}, static_cast<double>(step + 1), at::kFloat)};
    const auto update =
        optimizer.kind == OptimizerKind::kAdamw
            ? static_cast<void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                   at::TensorList, at::TensorList, double, double, double, double,
                                   double, bool, bool, const std::optional<at::Tensor>&,
                                   const std::optional<at::Tensor>&)>(at::_fused_adamw_)
            : static_cast<void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                   at::TensorList, at::TensorList, double, double, double, double,
                                   double, bool, bool, const std::optional<at::Tensor>&,
                                   const std::optional<at::Tensor>&)>(at::_fused_adam_);
    update(parameters, gradients, first, second, {}, counts, kRate, optimizer.beta1,
           optimizer.beta2, optimizer.weight_decay, optimizer.eps, false, false, {}, {});
  }
  return trained;
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

std::vector<model::OptimizerSettings> AllOptimizers() {
  return {{.kind = OptimizerKind::kAdamw},
          {.kind = OptimizerKind::kAdamw,
           .beta1 = 0.8,
           .beta2 = 0.999,
           .eps = 1e-6,
           .weight_decay = 0.2},
          {.kind = OptimizerKind::kAdam},
          {.kind = OptimizerKind::kAdam, .weight_decay = 0},
          {.kind = OptimizerKind::kSgd, .momentum = 0.9},
          {.kind = OptimizerKind::kSgd, .weight_decay = 0.1}};
}

TEST(Optimizer, EqualTorchs) {
  for (const model::OptimizerSettings& optimizer : AllOptimizers()) {
    const auto form = plan::StateForm::kMaster;
    const Trained wide = TrainOurs<double>(optimizer, DType::kFp64, form, 20);
    const Trained torchs = TrainTorchs(optimizer, at::kDouble, DType::kFp64, 20);
    EXPECT_LE(Difference(wide.parameters, torchs.parameters), 1e-12);
    for (size_t tensor = 0; tensor < wide.state.size(); ++tensor) {
      EXPECT_LE(Difference(wide.state[tensor], torchs.state[tensor]), 1e-12);
    }
    const Trained narrow = TrainOurs<float>(optimizer, DType::kFp32, form, 20);
    EXPECT_LE(Difference(narrow.parameters,
                         TrainTorchs(optimizer, at::kFloat, DType::kFp32, 20).parameters),
              2e-6);
  }
}

TEST(Optimizer, TakeGradientsOfANarrowerTypeAsTheyAre) {
  for (const DType gradient : {DType::kBf16, DType::kFp16}) {
    const auto form = plan::StateForm::kMaster;
    const Trained ours = TrainOurs<float>({}, gradient, form, 5);
    EXPECT_LE(Difference(ours.parameters, TrainTorchs({}, at::kFloat, gradient, 5).parameters),
              2e-6);
    EXPECT_GT(Difference(ours.parameters, TrainOurs<float>({}, DType::kFp32, form, 5).parameters),
              1e-6);
  }
}

TEST(Optimizer, StateInBlocksTrainsNearly) {
  for (const model::OptimizerSettings& optimizer : AllOptimizers()) {
    const Trained blocks = TrainOurs<float>(optimizer, DType::kFp32, plan::StateForm::kBlocks, 30);
    const Trained whole = TrainOurs<float>(optimizer, DType::kFp32, plan::StateForm::kMaster, 30);
    // How far parameters have gone.
    const double way = Difference(Numbers(1, at::kFloat), whole.parameters);
    EXPECT_LE(Difference(blocks.parameters, whole.parameters), 0.1 * way);
    if (!blocks.state.empty()) {
      EXPECT_FALSE(blocks.parameters.equal(whole.parameters));
    }
  }
}

// By how much of the block's largest magnitude a number changes at most: half the widest gap
// between numbers that have a code, and the smallest of them.
double LargestBlockError(BlockRange range) {
  std::vector<uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  const float scale = 1;
  std::vector<float> numbers(codes.size());
  DecodeBlocks(codes.data(), &scale, std::ssize(codes), range, numbers.data());
  std::ranges::sort(numbers);
  double widest = 0;
  double smallest = 1;
  for (size_t at = 1; at < numbers.size(); ++at) {
    widest = std::max<double>(widest, numbers[at] - numbers[at - 1]);
    if (numbers[at] > 0) smallest = std::min<double>(smallest, numbers[at]);
  }
  return std::max(widest / 2, smallest);
}

TEST(StateBlocks, ErrAsTheirMapSays) {
  for (const BlockRange range : {BlockRange::kSigned, BlockRange::kNeverNegative}) {
    at::Tensor numbers = Numbers(7, at::kFloat);
    if (range == BlockRange::kNeverNegative) numbers = numbers.abs();
    const float* const values = numbers.const_data_ptr<float>();
    std::vector<uint8_t> codes(kElements);
    std::vector<float> scales(static_cast<size_t>(plan::NumStateBlocks(kElements)));
    std::vector<float> decoded(kElements);
    EncodeBlocks(values, kElements, range, codes.data(), scales.data());
    DecodeBlocks(codes.data(), scales.data(), kElements, range, decoded.data());
    double largest = 0;
    for (int64_t i = 0; i < kElements; ++i) {
      const auto at = static_cast<size_t>(i);
      const double scale = scales[at / plan::kStateBlockElements];
      largest = std::max(largest, std::abs(decoded[at] - values[i]) / scale);
      // Relative to itself: by half a cell, of which a decade has two at least.
      if (std::abs(values[i]) > 1e-5 * scale) {
        EXPECT_LE(std::abs(decoded[at] - values[i]), 0.46 * 10 * std::abs(values[i]));
      }
      EXPECT_LE(std::abs(decoded[at]), scale);
      EXPECT_GE(decoded[at] * values[i], 0) << "another sign";
    }
    // Half of the cells into which the top decade is divided.
    EXPECT_NEAR(LargestBlockError(range), range == BlockRange::kSigned ? 0.45 / 64 : 0.45 / 128,
                1e-6);
    EXPECT_LE(largest, LargestBlockError(range) * (1 + 1e-6));
    EXPECT_GT(largest, 0);
    // What was decoded has the same codes again.
    std::vector<uint8_t> again(kElements);
    EncodeBlocks(decoded.data(), kElements, range, again.data(), scales.data());
    EXPECT_EQ(again, codes);
  }
}

TEST(StateBlocks, KeepZeroAndWhatIsNotZero) {
  std::vector<float> values(kElements, 0);
  std::vector<uint8_t> codes(kElements, 1);
  std::vector<float> scales(static_cast<size_t>(plan::NumStateBlocks(kElements)), 1);
  for (const BlockRange range : {BlockRange::kSigned, BlockRange::kNeverNegative}) {
    EncodeBlocks(values.data(), kElements, range, codes.data(), scales.data());
    EXPECT_EQ(codes, std::vector<uint8_t>(kElements, 0));
    DecodeBlocks(codes.data(), scales.data(), kElements, range, values.data());
    EXPECT_EQ(values, std::vector<float>(kElements, 0));
  }
  // Adam divides by the root of it.
  values[0] = 1;
  values[1] = 1e-30F;
  EncodeBlocks(values.data(), kElements, BlockRange::kNeverNegative, codes.data(), scales.data());
  DecodeBlocks(codes.data(), scales.data(), kElements, BlockRange::kNeverNegative, values.data());
  EXPECT_EQ(values[0], 1);
  EXPECT_GT(values[1], 0);
  EXPECT_EQ(values[2], 0);
}

TEST(Arithmetic, KnowsEveryNarrowNumber) {
  std::vector<uint16_t> all;
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) all.push_back(static_cast<uint16_t>(bits));
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    std::vector<float> wide(all.size());
    Widen(all.data(), dtype, 0, std::ssize(all), wide.data());
    for (size_t i = 0; i < all.size(); ++i) {
      const float expected =
          dtype == DType::kBf16
              ? static_cast<float>(at::BFloat16(all[i], at::BFloat16::from_bits()))
              : static_cast<float>(at::Half(all[i], at::Half::from_bits()));
      const bool is_number = !std::isnan(expected);
      EXPECT_EQ(std::isnan(wide[i]), !is_number) << i;
      if (is_number) {
        EXPECT_EQ(wide[i], expected) << i;
      }
      // However many of them are read at a time: NaN, infinities and the sign of zero, too.
      const float alone =
          dtype == DType::kBf16 ? plan::Bf16ToFloat(all[i]) : plan::Fp16ToFloat(all[i]);
      EXPECT_EQ(plan::BitsOfFloat(wide[i]), plan::BitsOfFloat(alone)) << i;
      EXPECT_EQ(AllFinite(&all[i], dtype, 1), std::isfinite(expected)) << i;
    }
  }
}

// To the last bit: gradients lie where the strategy has them, in memory of any alignment.
TEST(Arithmetic, AddsUpSquaresTheSameWhereverTheyLie) {
  for (const DType dtype : {DType::kFp32, DType::kFp64, DType::kBf16, DType::kFp16}) {
    const at::Tensor numbers = Numbers(7, model::ScalarTypeOf(dtype));
    const at::Tensor memory = at::zeros({kElements + 8}, numbers.options());
    for (const int64_t elements : {int64_t{1}, int64_t{15}, int64_t{16}, int64_t{999}, kElements}) {
      const at::Tensor some = numbers.narrow(0, 0, elements);
      const double sum = SumOfSquares(some.const_data_ptr(), dtype, elements);
      const double expected = some.to(at::kDouble).square().sum().item<double>();
      EXPECT_NEAR(sum, expected, 1e-12 * expected) << Name(dtype);
      for (int64_t place = 0; place < 8; ++place) {
        const at::Tensor moved = memory.narrow(0, place, elements);
        moved.copy_(some);
        EXPECT_EQ(SumOfSquares(moved.const_data_ptr(), dtype, elements), sum) << Name(dtype);
      }
    }
  }
}

TEST(Arithmetic, FindsWhatIsNotFiniteAnywhere) {
  for (const size_t at : {size_t{0}, size_t{17}, size_t{999}}) {
    for (const double wrong :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      std::vector<double> values(1000, 1e300);
      EXPECT_TRUE(AllFinite(values.data(), DType::kFp64, 1000));
      values[at] = wrong;
      EXPECT_FALSE(AllFinite(values.data(), DType::kFp64, 1000));
    }
  }
}

}  // namespace
}  // namespace shardscope::runtime
