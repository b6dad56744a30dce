#include "engine/model/segments.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/model/initialize.h"
#include "engine/model/reference_model.h"

namespace shardscope::model {
namespace {

std::vector<int64_t> SomeTokens(int64_t count) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int64_t>(MixedBits(7, static_cast<uint64_t>(i)) % 97));
  }
  return tokens;
}

struct Chain {
  double loss = 0;
  ParameterMap gradients;
  std::vector<int64_t> saved_bytes;
};

// Forward and backward of all segments in order.
Chain RunChain(const ModelConfig& config, const ParameterMap& parameters,
               const std::vector<int64_t>& samples) {
  const c10::InferenceMode guard;
  const Model model(config);
  std::vector<int64_t> memory(2 * (samples.size() - samples.size() / (config.seq + 1)));
  const TokenBatch tokens = MakeTokenBatch(samples, config.seq, memory);
  const auto views = [&](int64_t segment) {
    std::vector<at::Tensor> result;
    for (const plan::Parameter& parameter : ParametersOf(config, segment)) {
      result.push_back(parameters.at(parameter.name).to(ScalarTypeOf(config.dtype)));
    }
    return result;
  };
  std::vector<Saved> saved;
  Chain chain;
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    const at::Tensor input = segment == 0 ? at::Tensor() : saved.back().output;
    saved.push_back(model.Forward(segment, {views(segment), input, tokens}));
    chain.saved_bytes.push_back(SavedBytes(saved.back()));
  }
  chain.loss = saved.back().output.item<double>();
  at::Tensor gradient;
  const int32_t first =
      plan::FirstTrainedSegment(DescribeModel(config, plan::UnitPolicy(), 1).segments);
  for (int64_t segment = NumSegments(config) - 1; segment >= first; --segment) {
    const std::vector<at::Tensor> weights = views(segment);
    const auto names = ParametersOf(config, segment);
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < names.size(); ++i) {
      // A tied weight has one: the head's backward writes it, the embedding's adds to it.
      const auto other = chain.gradients.find(names[i].name);
      gradients.push_back(names[i].is_frozen               ? at::Tensor()
                          : other == chain.gradients.end() ? at::empty_like(weights[i])
                                                           : other->second);
    }
    const at::Tensor input =
        segment == 0 ? at::Tensor() : saved[static_cast<size_t>(segment - 1)].output;
    gradient = model.Backward(segment,
                              {.parameters = weights,
                               .input = input,
                               .saved = saved[static_cast<size_t>(segment)],
                               .output_gradient = gradient,
                               .tokens = tokens,
                               .needs_input_gradient = segment > first},
                              &gradients);
    for (size_t i = 0; i < names.size(); ++i) chain.gradients[names[i].name] = gradients[i];
  }
  return chain;
}

// gpt, and of llama: as it is drawn; grouped queries, wider heads and Qwen2's biases; a tied head.
// Then with adapters, with modules that are not trained, and with the logits in blocks.
std::vector<ModelConfig> Models(plan::DType dtype) {
  const ModelConfig gpt{.layers = 2, .dim = 24, .heads = 3, .seq = 10, .dtype = dtype};
  ModelConfig llama = gpt;
  llama.kind = ModelKind::kLlama;
  llama.ffn = 40;
  llama.vocab = 100;
  ModelConfig grouped = llama;
  grouped.heads = 6;
  grouped.kv_heads = 2;
  grouped.stated_head_dim = 6;
  grouped.qkv_bias = true;
  grouped.norm_epsilon = 1e-6;
  grouped.rope_scaling =
      RopeScaling{.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_seq = 32};
  ModelConfig tied = llama;
  tied.tied = true;
  ModelConfig adapted_gpt = gpt;
  adapted_gpt.lora = {.rank = 3, .alpha = 5, .targets = {"qkv", "projection", "up", "down"}};
  ModelConfig adapted = grouped;
  adapted.lora = {.rank = 3, .alpha = 5, .targets = {"q", "v", "o", "up", "down"}};
  ModelConfig adapted_tied = tied;
  adapted_tied.lora = {.rank = 2, .alpha = 16, .targets = {"k", "gate"}};
  ModelConfig frozen = grouped;
  frozen.frozen = {"embedding", "block0", "block1.mlp"};
  // Blocks of the logits: some with a rest, one, larger than the vocabulary.
  ModelConfig blocked_gpt = gpt;
  blocked_gpt.logits_block = 60;
  ModelConfig blocked = grouped;
  blocked.logits_block = 100;
  ModelConfig blocked_tied = adapted_tied;
  blocked_tied.logits_block = 1000;
  ModelConfig blocked_trained_tied = tied;
  blocked_trained_tied.logits_block = 33;
  return {gpt,          llama,  grouped,     tied,    adapted_gpt,  adapted,
          adapted_tied, frozen, blocked_gpt, blocked, blocked_tied, blocked_trained_tied};
}

class EveryModel : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Segments, EveryModel, testing::Range(size_t{0}, size_t{12}));

TEST_P(EveryModel, GradientsEqualAutogradOfTheReference) {
  const ModelConfig config = Models(plan::DType::kFp64)[GetParam()];
  ParameterMap parameters = InitialParameters(config, plan::DType::kFp64, 5);
  for (auto& [name, parameter] : parameters) {
    if (name.ends_with(".bias")) parameter.fill_(0.25);
    // Drawn they are 0, and so are the gradients of A.
    if (name.ends_with(".lora_B.weight")) {
      const auto other =
          InitialValues(config, {"block0.b", parameter.sizes().vec()}, 1, 0, parameter.numel());
      parameter.copy_(at::tensor(other, at::kDouble).view(parameter.sizes()));
    }
  }
  const std::vector<int64_t> samples = SomeTokens(3 * (config.seq + 1));
  const Chain chain = RunChain(config, parameters, samples);

  std::vector<at::Tensor> weights;
  std::vector<std::string> names;
  for (const plan::Parameter& parameter : AllParameters(config)) {
    if (parameter.is_frozen) {
      const auto gradient = chain.gradients.find(parameter.name);
      EXPECT_TRUE(gradient == chain.gradients.end() || !gradient->second.defined());
      continue;
    }
    weights.push_back(parameters.at(parameter.name).set_requires_grad(true));
    names.push_back(parameter.name);
  }
  const at::Tensor loss =
      ReferenceLoss(config, parameters, at::tensor(samples, at::kLong).view({3, config.seq + 1}));
  const auto expected = torch::autograd::grad({loss}, weights);
  EXPECT_NEAR(chain.loss, loss.item<double>(), 1e-13);
  size_t index = 0;
  for (const std::string& name : names) {
    const at::Tensor& wanted = expected[index++];
    const double difference = (chain.gradients.at(name) - wanted).abs().max().item<double>();
    EXPECT_LE(difference / wanted.abs().max().item<double>(), 1e-12) << name;
  }
}

TEST_P(EveryModel, DescriptionHasTheBytesThatForwardSaves) {
  for (const plan::DType dtype : {plan::DType::kFp32, plan::DType::kFp64, plan::DType::kBf16}) {
    const ModelConfig config = Models(dtype)[GetParam()];
    const ParameterMap parameters = InitialParameters(config, plan::DType::kFp32, 5);
    const Chain chain = RunChain(config, parameters, SomeTokens(2 * (config.seq + 1)));
    const plan::ModelDescription description = DescribeModel(config, plan::UnitPolicy(), 2);
    for (size_t i = 0; i < description.segments.size(); ++i) {
      EXPECT_EQ(chain.saved_bytes[i], description.segments[i].activation_bytes)
          << description.segments[i].name << " " << plan::Name(dtype);
    }
  }
}

TEST_P(EveryModel, LowPrecisionStaysNearFullPrecision) {
  ModelConfig config = Models(plan::DType::kFp32)[GetParam()];
  const ParameterMap parameters = InitialParameters(config, plan::DType::kFp32, 5);
  const std::vector<int64_t> samples = SomeTokens(2 * (config.seq + 1));
  const Chain full = RunChain(config, parameters, samples);
  config.dtype = plan::DType::kBf16;
  const Chain low = RunChain(config, parameters, samples);
  EXPECT_NEAR(low.loss, full.loss, 0.02 * full.loss);
  EXPECT_NE(low.loss, full.loss);
}

// With and without blocks of the logits.
TEST(Head, RowsThatDoNotCountDoNotSpoilTheLoss) {
  const c10::InferenceMode guard;
  for (const int64_t block : {0, 16, 50}) {
    ModelConfig config{.layers = 1, .dim = 8, .heads = 2, .seq = 4};
    config.kind = ModelKind::kLlama;
    config.vocab = 40;
    config.logits_block = block;
    const Model model(config);
    const ParameterMap drawn = InitialParameters(config, plan::DType::kFp32, 5);
    const int64_t head = NumSegments(config) - 1;
    std::vector<at::Tensor> parameters;
    for (const plan::Parameter& parameter : ParametersOf(config, head)) {
      parameters.push_back(drawn.at(parameter.name));
    }
    const std::vector<int64_t> samples = {1, 2, 3, 4, 5};
    std::vector<int64_t> memory(8);
    const TokenBatch tokens = MakeTokenBatch(samples, config.seq, memory);
    at::Tensor input = at::ones({4, 8});
    const double before = model.Forward(head, {parameters, input, tokens}).output.item<double>();
    memory[6] = kNoTarget;
    input[2].fill_(std::numeric_limits<float>::infinity());
    const Saved saved = model.Forward(head, {parameters, input, tokens});
    // The mean is over all rows still.
    EXPECT_NEAR(saved.output.item<double>(), before * 3 / 4, 0.05 * before) << block;
  }
}

}  // namespace
}  // namespace shardscope::model
