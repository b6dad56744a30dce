// Forward and backward of the model's segments, as explicit formulas: no autograd graph, so nothing
// keeps a freed parameter alive, gradients go straight into memory that the caller owns, and every
// op is where the Schedule says.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "engine/model/model_config.h"

namespace shardscope::model {

// Token ids of one micro-batch, [batch, seq + 1] row-major: inputs are the first seq of each row,
// targets the last seq.
struct TokenBatch {
  std::span<const int64_t> inputs;   // batch * seq
  std::span<const int64_t> targets;  // batch * seq
};
// Fills `memory` (2 * batch * seq), which the result refers to.
TokenBatch MakeTokenBatch(const std::vector<int64_t>& samples, int64_t seq,
                          std::span<int64_t> memory);

at::ScalarType ScalarTypeOf(plan::DType dtype);

// What a forward leaves for its backward. The input is not part of it: it is the previous segment's
// output.
struct Saved {
  at::Tensor output;  // [T, D]; of the head: the mean loss, one wide scalar
  std::vector<at::Tensor> tensors;
};

// Bytes that `saved` holds; equals the segment's activation_bytes.
int64_t SavedBytes(const Saved& saved);

// Threads: const after construction; any number of threads at once. Callers switch autograd off
// (c10::InferenceMode) and set at::set_num_threads(1).
class Model {
 public:
  explicit Model(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  // Of tensors that the model itself holds.
  int64_t table_bytes() const { return static_cast<int64_t>(rotary_.nbytes()); }

  // `parameters` as ParametersOf() orders them; `input` undefined for the embedding.
  Saved Forward(int64_t segment, const std::vector<at::Tensor>& parameters, const at::Tensor& input,
                const TokenBatch& tokens) const;

  struct BackwardArgs {
    const std::vector<at::Tensor>& parameters;
    const at::Tensor& input;
    const Saved& saved;
    const at::Tensor& output_gradient;  // undefined for the head: its loss starts the backward
    const TokenBatch& tokens;
  };
  // Overwrites `gradients` (same shapes as the parameters); returns the input's gradient
  // (undefined for the embedding).
  at::Tensor Backward(int64_t segment, const BackwardArgs& args,
                      std::vector<at::Tensor>* gradients) const;

 private:
  Saved AttentionForward(const std::vector<at::Tensor>& parameters, const at::Tensor& input) const;
  Saved MlpForward(const std::vector<at::Tensor>& parameters, const at::Tensor& input) const;
  Saved HeadForward(const std::vector<at::Tensor>& parameters, const at::Tensor& input,
                    const TokenBatch& tokens) const;
  at::Tensor AttentionBackward(const BackwardArgs& args, std::vector<at::Tensor>* gradients) const;
  at::Tensor MlpBackward(const BackwardArgs& args, std::vector<at::Tensor>* gradients) const;
  at::Tensor HeadBackward(const BackwardArgs& args, std::vector<at::Tensor>* gradients) const;
  Saved Normed(const at::Tensor& input, const at::Tensor& weight) const;

  ModelConfig config_;
  at::ScalarType type_;
  at::ScalarType wide_;
  at::Tensor rotary_;
};

}  // namespace shardscope::model
