// Text that a trained model writes: so that a person sees what it has learned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/reference_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

struct SampleOptions {
  int64_t tokens = 100;    // at most; fewer where the text ends before
  double temperature = 0;  // 0: the likeliest token each time
  uint64_t seed = 0;       // the same one draws the same tokens
  bool is_chat = false;    // the prompt is what a user says; an answer follows
};

// A model with its weights on one device, whole, and what its tokens mean. One thread.
//
// Note: Sampling. Every token takes a forward over all those before it, as far as the model's
// sequence goes: no keys and values are kept. For a few hundred tokens of the models that one
// machine trains that is quick enough.
class TextSampler {
 public:
  // `path`: a run, a folder of checkpoints, or a checkpoint; of the first two the newest whole
  // checkpoint. Errors: those of checkpoint::Checkpoint, parameters that the model does not have
  // so, the tokenizer's.
  static Result<TextSampler> Open(const std::string& path, const std::string& model_folder = "");
  // `tokenizer` null: a token is a byte.
  TextSampler(const model::ModelConfig& config, model::ParameterMap parameters,
              std::shared_ptr<const tokenizer::Tokenizer> tokenizer);

  // What follows `prompt`. Errors: a prompt without a token, or that is no UTF-8; no chat template
  // where one is asked for; weights that are not finite.
  Result<std::string> Continue(const std::string& prompt, const SampleOptions& options) const;

 private:
  Result<std::vector<int64_t>> Encode(const std::string& prompt, bool is_chat) const;
  std::string Decode(const std::vector<int64_t>& tokens) const;
  // Of the token behind `tokens`, in double; of those alone that have a meaning.
  std::vector<double> Logits(const std::vector<int64_t>& tokens) const;

  model::ModelConfig config_;
  model::ParameterMap parameters_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

}  // namespace shardscope::runtime
