#include "engine/runtime/sample.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/model/documents.h"
#include "engine/model/initialize.h"
#include "engine/runtime/checkpoint/whole_model.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "engine/runtime/setup.h"

namespace shardscope::runtime {
namespace {

// The products of smaller models are too short to be shared among threads, which only wait then.
constexpr int64_t kLeastForThreads = 16 << 20;  // parameters

int64_t NumParameters(const model::ParameterMap& parameters) {
  int64_t count = 0;
  for (const auto& [name, values] : parameters) count += values.numel();
  return count;
}

// Which token a number in [0, 1) means where tokens are as likely as their logits say.
size_t Drawn(const std::vector<double>& logits, double temperature, double number) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> shares;
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp((logit - largest) / temperature);
    shares.push_back(sum);
  }
  const auto found = std::ranges::upper_bound(shares, number * sum);
  return std::min(static_cast<size_t>(found - shares.begin()), logits.size() - 1);
}

}  // namespace

TextSampler::TextSampler(const model::ModelConfig& config, model::ParameterMap parameters,
                         std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
    : config_(config), parameters_(std::move(parameters)), tokenizer_(std::move(tokenizer)) {}

Result<TextSampler> TextSampler::Open(const std::string& path, const std::string& model_folder) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const WholeModel whole, WholeModel::Open(path, model_folder));
  SHARDSCOPE_ASSIGN_OR_RETURN(auto tokenizer, TokenizerOf(whole.config()));
  const std::string& named = whole.config().Get("data.tokenizer");
  SHARDSCOPE_RETURN_IF_ERROR(whole.CheckTokenizer(
      tokenizer.get(), named.empty() ? whole.config().Get("model.path") : named,
      "the prompt would be read with"));
  model::ModelConfig model = whole.model();
  model::ParameterMap parameters;
  for (const plan::Parameter& parameter : model::AllParameters(model)) {
    SHARDSCOPE_ASSIGN_OR_RETURN(parameters[parameter.name], whole.Read(parameter));
  }
  model.dtype = parameters.begin()->second.scalar_type() == at::kDouble ? plan::DType::kFp64
                                                                        : plan::DType::kFp32;
  return TextSampler(model, std::move(parameters), std::move(tokenizer));
}

Result<std::vector<int64_t>> TextSampler::Encode(const std::string& prompt, bool is_chat) const {
  std::vector<int64_t> tokens;
  if (tokenizer_ == nullptr && is_chat) {
    return Status::Error(
        "--chat: the model's tokens are bytes, of which there is no chat template");
  }
  if (tokenizer_ == nullptr) {
    for (const char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  } else {
    std::vector<tokenizer::TokenId> ids;
    tokenizer::Encoder encoder(tokenizer_);
    Status status;
    if (is_chat) {
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string text, model::ChatPrompt(*tokenizer_, prompt));
      status = encoder.Encode(text, &ids);
    } else {
      status = encoder.EncodeBeginning(prompt, &ids);
    }
    if (!status.ok()) return Status::Error("--prompt: " + status.message());
    tokens.assign(ids.begin(), ids.end());
  }
  if (tokens.empty())
    return Status::Error("--prompt: it has no token; give some text to go on from");
  const int64_t largest = *std::ranges::max_element(tokens);
  if (largest < config_.vocab) return tokens;
  return Status::Error(fmt::format("--prompt: the token {} is not among the {} of the model",
                                   largest, config_.vocab));
}

std::string TextSampler::Decode(const std::vector<int64_t>& tokens) const {
  if (tokenizer_ != nullptr) {
    return tokenizer_->Decode(std::vector<tokenizer::TokenId>(tokens.begin(), tokens.end()), true);
  }
  std::string bytes;
  for (const int64_t token : tokens) bytes += static_cast<char>(token);
  return tokenizer::LossyUtf8(bytes);
}

std::vector<double> TextSampler::Logits(const std::vector<int64_t>& tokens) const {
  model::ModelConfig config = config_;
  config.seq = std::min<int64_t>(config_.seq, std::ssize(tokens));
  const std::vector<int64_t> seen(tokens.end() - config.seq, tokens.end());
  const at::Tensor inputs = at::tensor(seen, at::kLong).unsqueeze(0);
  const at::Tensor last = model::ReferenceLogits(config, parameters_, inputs)
                              .select(1, config.seq - 1)
                              .to(at::kDouble)
                              .contiguous();
  const int64_t meant = tokenizer_ == nullptr ? 256 : tokenizer_->num_ids();
  const auto* values = last.const_data_ptr<double>();
  return {values, values + std::min(meant, config_.vocab)};
}

Result<std::string> TextSampler::Continue(const std::string& prompt,
                                          const SampleOptions& options) const {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::vector<int64_t> tokens, Encode(prompt, options.is_chat));
  const c10::InferenceMode no_autograd;
  if (NumParameters(parameters_) < kLeastForThreads) ComputeOnOneThread();
  std::vector<int64_t> written;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const std::vector<double> logits = Logits(tokens);
    if (!std::ranges::all_of(logits, [](double logit) { return std::isfinite(logit); })) {
      return Status::Error("the model's weights give numbers that are not finite");
    }
    const double number =
        static_cast<double>(model::MixedBits(options.seed, static_cast<uint64_t>(i)) >> 11) *
        0x1p-53;
    const auto token = static_cast<int64_t>(
        options.temperature > 0
            ? Drawn(logits, options.temperature, number)
            : static_cast<size_t>(std::ranges::max_element(logits) - logits.begin()));
    if (tokenizer_ != nullptr && token == tokenizer_->eos()) break;
    tokens.push_back(token);
    written.push_back(token);
  }
  return Decode(written);
}

}  // namespace shardscope::runtime
