// The model made of tensor operations against the CPU's row loops, segment by segment.
#include "engine/cuda/runtime/device_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "engine/model/initialize.h"

namespace shardscope::cuda {
namespace {

struct Case {
  plan::DType dtype;
  double tolerance;  // relative to the largest value
};

class DeviceModelTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kBatch = 3;
  const model::ModelConfig config_{
      .layers = 1, .dim = 24, .heads = 3, .seq = 16, .dtype = GetParam().dtype};
  const at::ScalarType type_ = model::ScalarTypeOf(GetParam().dtype);

  // Each segment, forward and backward.
  void Compare(const model::ModelConfig& config) const;

  // Normal values, differently for each seed.
  at::Tensor Random(at::IntArrayRef sizes, uint64_t seed) const {
    at::Tensor result = at::empty(sizes, at::kDouble);
    auto* values = result.mutable_data_ptr<double>();
    for (int64_t i = 0; i < result.numel(); ++i) {
      const uint64_t bits = model::MixedBits(seed, static_cast<uint64_t>(i));
      values[i] = static_cast<double>(bits % 2001) / 1000 - 1;
    }
    return result.to(type_);
  }

  void ExpectNear(const at::Tensor& actual, const at::Tensor& expected, const char* what) const {
    ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
    ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
    const double scale = expected.abs().max().item<double>();
    EXPECT_LE((actual.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>(),
              GetParam().tolerance * scale)
        << what;
  }
};

TEST_P(DeviceModelTest, EverySegmentEqualsTheCpusForwardAndBackward) { Compare(config_); }

TEST_P(DeviceModelTest, SoDoesEachOfLlama) {
  model::ModelConfig config = config_;
  config.kind = model::ModelKind::kLlama;
  config.heads = 6;
  config.kv_heads = 2;
  config.ffn = 40;
  config.qkv_bias = true;
  Compare(config);
}

// Undefined gradients, and segments before which nothing is trained.
TEST_P(DeviceModelTest, SoDoesEachOfWhichNotAllIsTrained) {
  if (GetParam().tolerance > 1e-4) return;  // products of few columns round in bf16 and fp16
  model::ModelConfig config = config_;
  config.lora = {.rank = 3, .alpha = 1, .targets = {"qkv", "projection", "down"}};
  Compare(config);
  config.kind = model::ModelKind::kLlama;
  config.ffn = 40;
  config.lora.targets = {"q", "v", "o", "up", "down"};
  Compare(config);
  config.lora = {};
  config.frozen = {"embedding", "block0.attention"};
  Compare(config);
}

TEST_P(DeviceModelTest, SoDoesTheHeadWithItsLogitsInBlocks) {
  model::ModelConfig config = config_;
  config.logits_block = 100;
  Compare(config);
}

void DeviceModelTest::Compare(const model::ModelConfig& config) const {
  const c10::InferenceMode no_autograd;
  const model::Model rows(config);
  const DeviceModel tensors(config, at::kCPU);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < kBatch * (config.seq + 1); ++i) {
    samples.push_back(static_cast<int64_t>(model::MixedBits(5, static_cast<uint64_t>(i)) % 256));
  }
  std::vector<int64_t> memory(static_cast<size_t>(2 * kBatch * config.seq));
  const model::TokenBatch tokens = model::MakeTokenBatch(samples, config.seq, memory);
  const int32_t first = plan::FirstTrainedSegment(model::DescribeModel(config, {}, 1).segments);
  for (int64_t segment = 0; segment < model::NumSegments(config); ++segment) {
    SCOPED_TRACE(segment);
    std::vector<at::Tensor> parameters, row_gradients, tensor_gradients;
    for (const plan::Parameter& parameter : model::ParametersOf(config, segment)) {
      parameters.push_back(
          Random(parameter.shape, 10 * static_cast<uint64_t>(segment) + parameters.size()));
      const bool is_frozen = parameter.is_frozen;
      row_gradients.push_back(is_frozen ? at::Tensor() : at::empty(parameter.shape, type_));
      tensor_gradients.push_back(is_frozen ? at::Tensor()
                                           : at::empty(parameter.shape, type_).fill_(7));
    }
    const bool is_first = segment == 0;
    const bool is_last = segment + 1 == model::NumSegments(config);
    const at::Tensor input =
        is_first ? at::Tensor() : Random({kBatch * config.seq, config.dim}, 77);
    const model::Saved expected = rows.Forward(segment, {parameters, input, tokens});
    const model::Saved actual = tensors.Forward(segment, {parameters, input, tokens});
    ExpectNear(actual.output, expected.output, "output");
    EXPECT_EQ(model::SavedBytes(actual), model::SavedBytes(expected));
    if (segment < first) continue;  // it has no backward
    const at::Tensor gradient = is_last ? at::Tensor() : Random(expected.output.sizes(), 78);
    const auto backward = [&](const model::SegmentModel& computes, const model::Saved& saved,
                              std::vector<at::Tensor>* gradients) {
      return computes.Backward(segment,
                               {.parameters = parameters,
                                .input = input,
                                .saved = saved,
                                .output_gradient = gradient,
                                .tokens = tokens,
                                .needs_input_gradient = segment > first},
                               gradients);
    };
    const at::Tensor expected_gradient = backward(rows, expected, &row_gradients);
    const at::Tensor actual_gradient = backward(tensors, actual, &tensor_gradients);
    ASSERT_EQ(actual_gradient.defined(), expected_gradient.defined());
    if (expected_gradient.defined()) {
      ExpectNear(actual_gradient, expected_gradient, "input gradient");
    }
    for (size_t i = 0; i < row_gradients.size(); ++i) {
      if (!row_gradients[i].defined()) continue;
      ExpectNear(tensor_gradients[i], row_gradients[i], "parameter gradient");
    }
  }
}

// bf16 keeps 8 bits; the two round in different places.
INSTANTIATE_TEST_SUITE_P(
    All, DeviceModelTest,
    testing::Values(Case{plan::DType::kFp64, 1e-12}, Case{plan::DType::kFp32, 2e-5},
                    Case{plan::DType::kBf16, 3e-2}, Case{plan::DType::kFp16, 4e-3}),
    [](const auto& tested) { return std::string(plan::Name(tested.param.dtype)); });

}  // namespace
}  // namespace shardscope::cuda
