// Forward and backward of the model's segments, as explicit formulas: no autograd graph, so nothing
// keeps a freed parameter alive, gradients go straight into memory that the caller owns, and every
// op is where the Schedule says.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "engine/model/adapter.h"
#include "engine/model/kernels.h"
#include "engine/model/model_config.h"
#include "engine/plan/activation_checkpointing.h"

namespace shardscope::model {

// Token ids of one micro-batch, [batch * seq] each: of every row of [batch, seq + 1] the first seq,
// and the last seq.
struct TokenBatch {
  at::Tensor inputs;
  at::Tensor targets;  // kNoTarget: not in the loss
  // The loss is the sum over targets divided by this: where some are left out, the mean over those
  // of the whole step that are not. 0: by their number, which is the same where all are counted.
  double mean_over = 0;

  double loss_rows() const {
    return mean_over > 0 ? mean_over : static_cast<double>(targets.numel());
  }
};

inline constexpr int64_t kNoTarget = -100;  // as PyTorch's ignore_index

// One of `count` equal parts of a sequence.
struct SequencePart {
  int64_t index = 0;
  int64_t count = 1;
};

// Of the rows of all positions [batch * seq, D] those of a part: a view [batch, seq / count, D].
at::Tensor RowsOf(const at::Tensor& rows, int64_t seq, const SequencePart& part);

// Fills `memory` (2 * batch * seq), which the result refers to: the inputs of all rows of samples
// (AppendSample()), then their targets; of a part, those at its positions only.
TokenBatch MakeTokenBatch(const std::vector<int64_t>& samples, int64_t seq,
                          std::span<int64_t> memory, const SequencePart& part = {});

at::ScalarType ScalarTypeOf(plan::DType dtype);

// What a forward leaves for its backward. The input is not part of it: it is the previous segment's
// output.
struct Saved {
  // [T, D]; of the head: the mean loss, one wide scalar; of a norm alone undefined.
  at::Tensor output;
  std::vector<at::Tensor> tensors;
};

// Bytes that `saved` holds; equals the segment's activation_bytes, of a norm alone its norm_bytes.
int64_t SavedBytes(const Saved& saved);

// Of what the weights behind a norm put out, one after the other in `hidden` (flat, or [T, D] of
// one weight): [T, rows of the weight] each. `weights`: of the segment, in which they follow the
// norm's.
std::vector<at::Tensor> HiddenParts(const at::Tensor& hidden,
                                    const std::vector<at::Tensor>& weights, int64_t tokens);

// Whether the weights behind a norm have biases, which follow them.
bool HasBiases(const std::vector<at::Tensor>& weights, size_t num_behind_norm);

// The segments of a model on some device. Threads: const after construction; any number of threads
// at once, on a GPU each with its own current stream. Callers switch autograd off
// (c10::InferenceMode), and on the CPU set at::set_num_threads(1).
class SegmentModel {
 public:
  virtual ~SegmentModel() = default;

  const ModelConfig& config() const { return config_; }

  struct ForwardArgs {
    // As ParametersOf() orders them. With parameters of one rank of mesh.tensor the output is this
    // rank's part of a sum.
    const std::vector<at::Tensor>& parameters;
    const at::Tensor& input;  // undefined for the embedding
    const TokenBatch& tokens;
    bool adds_input = true;  // the residual, which one rank alone adds to the sum
    // Where tensor ranks have parts of the sequence, and `input` is of one: which, and what
    // NormForward() has saved of it, all else gathered.
    SequencePart part;
    const std::vector<at::Tensor>* norm = nullptr;
    bool needs_output = true;
  };
  // With a norm that was given it is not among what is saved, and the output is of all positions,
  // with the residual at its own.
  Saved Forward(int64_t segment, const ForwardArgs& args) const;

  // Activation checkpointing: takes what `keeps` does not name from what Forward() has saved, and
  // leaves undefined tensors in the place of what is between products.
  void Drop(int64_t segment, plan::Keeps keeps, const ForwardArgs& args, Saved* saved) const;
  // What was taken from between `products`, again, at its places: norms and activation functions.
  Saved Recompute(int64_t segment, const ForwardArgs& args, const Saved& products) const;

  // The norm of a segment alone, of a part of the sequence: saves what Forward() would, with what
  // it puts out at its positions among all.
  Saved NormForward(const ForwardArgs& args) const;

  struct BackwardArgs {
    const std::vector<at::Tensor>& parameters;
    const at::Tensor& input;
    const Saved& saved;
    const at::Tensor& output_gradient;  // undefined for the head: its loss starts the backward
    const TokenBatch& tokens;
    int64_t loss_parts = 1;  // the loss is the mean of so many, of which this is one
    double loss_scale = 1;   // of a gradient scaler
    // If given, the gradients of the weights behind the norm (and their biases) are left to
    // WeightBackward(), and what that needs is put here.
    at::Tensor* hidden_gradient = nullptr;
    bool needs_input_gradient = true;  // nothing before the segment is trained otherwise
  };
  // Overwrites `gradients`, which have the shapes of the parameters and are undefined for those
  // that are frozen; returns the input's gradient, undefined where it is not needed.
  at::Tensor Backward(int64_t segment, const BackwardArgs& args,
                      std::vector<at::Tensor>* gradients) const;

  // The same in two parts, for segments with a norm: all gradients but the norm weight's, the
  // first, and that of what the norm puts out, which ranks of mesh.tensor add up between them
  // (undefined where it is not needed);
  at::Tensor BackwardToNorm(int64_t segment, const BackwardArgs& args,
                            std::vector<at::Tensor>* gradients) const;
  // then, where that was left out, the gradients of the weights behind the norm;
  // `weights`: of the segment, or their gradients where none is frozen.
  static void WeightBackward(const Saved& saved, const at::Tensor& hidden_gradient,
                             const std::vector<at::Tensor>& weights,
                             std::vector<at::Tensor>* gradients);
  // then through the norm of args.input, and past it; the head has no output gradient to pass
  // beside.
  virtual at::Tensor NormBackward(const BackwardArgs& args, const at::Tensor& norm_gradient,
                                  at::Tensor* weight_gradient) const = 0;

 protected:
  using Tensors = std::vector<at::Tensor>;

  SegmentModel(const ModelConfig& config, at::Device device);

  virtual Saved EmbeddingForward(const Tensors& parameters, const TokenBatch& tokens) const = 0;
  virtual Saved AttentionForward(const ForwardArgs& args) const = 0;
  virtual void EmbeddingBackward(const BackwardArgs& args, Tensors* gradients) const = 0;
  // To the norm.
  virtual at::Tensor AttentionBackward(const BackwardArgs& args, Tensors* gradients) const = 0;
  // The normed input after its scale: the first two of `tensors`, which more follow by segment.
  virtual Saved Normed(const at::Tensor& input, const at::Tensor& weight) const = 0;
  // One wide scalar of [T, V].
  virtual at::Tensor MeanLossOf(const at::Tensor& log_probabilities,
                                const TokenBatch& tokens) const = 0;
  // `scale`: of the loss.
  virtual at::Tensor LogitsGradient(const at::Tensor& log_probabilities, const TokenBatch& tokens,
                                    double scale) const = 0;

  // Of the tensors that a segment saves: how many are of its norm, unless that is given, and how
  // many behind them are products.
  static size_t NumNormTensors(const ForwardArgs& args) { return args.norm == nullptr ? 2 : 0; }
  size_t NumProducts(int64_t segment, size_t num_behind_norm) const;
  bool HasGelu(int64_t segment) const {
    return config_.kind == ModelKind::kGpt && KindOf(config_, segment) == SegmentKind::kMlp;
  }

  // Of llama. Turns heads [T, heads, head_dim] in place by their positions' angles.
  virtual void Rotate(at::Tensor* heads) const = 0;
  // Views of [batch, heads, seq, head_dim] with contiguous channels; fewer heads of keys and values
  // serve several of queries each.
  struct Qkv {
    at::Tensor query;
    at::Tensor key;
    at::Tensor value;
  };
  // Causal attention: its output, [batch, heads, seq, head_dim] whose memory order is [batch, seq,
  // heads, head_dim], and what its backward needs beside it.
  virtual Tensors Attend(const Qkv& qkv) const = 0;
  virtual Qkv AttendBackward(const at::Tensor& gradient, const Qkv& qkv,
                             const Tensors& attended) const = 0;
  // From the gradient of rotated (or with `rotates` off: not rotated) heads [batch, heads, seq,
  // head_dim] of any memory order to that of rows [T, heads * head_dim].
  virtual void RotateBack(const at::Tensor& gradient, bool rotates, at::Tensor* rows) const = 0;
  // silu(gate) * up, in a new tensor.
  virtual at::Tensor Gated(const at::Tensor& gate, const at::Tensor& up) const = 0;
  // From its gradient, in whose place Gated() is written, those of gate and up.
  virtual void GatedBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                             at::Tensor* gate_gradient, at::Tensor* up_gradient) const = 0;
  // Of logits [T, V]: the loss, one wide scalar. In their place comes its gradient, times
  // tokens.loss_rows().
  virtual at::Tensor LossInPlace(at::Tensor* logits, const TokenBatch& tokens) const = 0;

  // Of a block [T, n] of the logits, of the tokens from `first` on: as AddLogits() and
  // BlockGradient() of kernels.h.
  virtual void AddLogitsOf(const at::Tensor& block, int64_t first, const TokenBatch& tokens,
                           LogitRows* rows) const = 0;
  virtual void GradientOfBlock(const at::Tensor& log_sum, int64_t first, const TokenBatch& tokens,
                               double scale, at::Tensor* block) const = 0;

  // What a segment starts from: its norm, or that which was given.
  Saved StartOf(const ForwardArgs& args) const;

  // What all devices share; backward to the norm.
  Saved MlpForward(const ForwardArgs& args) const;
  at::Tensor MlpBackward(const BackwardArgs& args, Tensors* gradients) const;
  Saved HeadForward(const Tensors& parameters, const at::Tensor& input,
                    const TokenBatch& tokens) const;
  at::Tensor HeadBackward(const BackwardArgs& args, Tensors* gradients) const;
  // With the logits in blocks of columns.
  Saved BlockedHeadForward(const ForwardArgs& args) const;
  at::Tensor BlockedHeadBackward(const BackwardArgs& args, Tensors* gradients) const;

  // Of llama (llama_segments.cc).
  Saved LlamaAttentionForward(const ForwardArgs& args) const;
  at::Tensor LlamaAttentionBackward(const BackwardArgs& args, Tensors* gradients) const;
  Saved LlamaMlpForward(const ForwardArgs& args) const;
  at::Tensor LlamaMlpBackward(const BackwardArgs& args, Tensors* gradients) const;
  Saved LlamaHeadForward(const ForwardArgs& args) const;
  at::Tensor LlamaHeadBackward(const BackwardArgs& args, Tensors* gradients) const;
  Qkv HeadsOf(const Tensors& rows) const;

  // The part of a sum that rows times the last weight [D, its columns] are, with its adapter, in a
  // new tensor.
  at::Tensor Output(SegmentKind kind, const ForwardArgs& args, const at::Tensor& rows) const;
  // The gradient of its rows; its own, and its adapter's, are of `rows`.
  struct OutputGradient {
    at::Tensor of_rows;
    at::Tensor inner;  // of the adapter
  };
  OutputGradient OutputBackward(SegmentKind kind, const BackwardArgs& args) const;
  void OutputWeightBackward(SegmentKind kind, const BackwardArgs& args, const at::Tensor& rows,
                            const OutputGradient& gradient, Tensors* gradients) const;

  // Of the heads that this rank has. Queries, keys or values of qkv [T, 3 * heads * head_dim] as
  // [batch, heads, seq, head_dim].
  at::Tensor Part(const at::Tensor& qkv, int64_t part) const;
  // [T, heads * head_dim], from the output of attention.
  at::Tensor Flat(const at::Tensor& attended) const;
  // Of Flat(): back to [batch, heads, seq, head_dim].
  at::Tensor Heads(const at::Tensor& flat) const;

  // The gradients of the weights behind the norm, unless that is left to WeightBackward(), and of
  // their adapters; returns that of what the norm puts out, where it is needed.
  at::Tensor HiddenBackward(SegmentKind kind, const BackwardArgs& args,
                            const at::Tensor& hidden_gradient, Tensors* gradients) const;
  // What the adapters of the weights behind the norm add.
  void AddHidden(SegmentKind kind, const Tensors& parameters, const at::Tensor& normed,
                 Tensors* parts) const;

  // y = x W^T has the weight gradient dy^T x, written where the caller says, if anywhere.
  static void WeightGradient(const at::Tensor& output_gradient, const at::Tensor& input,
                             at::Tensor* gradient);

  const ModelConfig config_;
  const at::ScalarType type_;
  const at::ScalarType wide_;
  const at::Tensor rotary_;  // [seq, 2, head_dim / 2], wide
  const AdapterPlaces adapters_;
};

// On the CPU, with the row kernels of kernels.h.
class Model final : public SegmentModel {
 public:
  explicit Model(const ModelConfig& config) : SegmentModel(config, at::kCPU) {}

  at::Tensor NormBackward(const BackwardArgs& args, const at::Tensor& norm_gradient,
                          at::Tensor* weight_gradient) const override;

  // Of tensors that the model itself holds.
  int64_t table_bytes() const { return static_cast<int64_t>(rotary_.nbytes()); }

 protected:
  Saved EmbeddingForward(const Tensors& parameters, const TokenBatch& tokens) const override;
  Saved AttentionForward(const ForwardArgs& args) const override;
  void EmbeddingBackward(const BackwardArgs& args, Tensors* gradients) const override;
  at::Tensor AttentionBackward(const BackwardArgs& args, Tensors* gradients) const override;
  Saved Normed(const at::Tensor& input, const at::Tensor& weight) const override;
  at::Tensor MeanLossOf(const at::Tensor& log_probabilities,
                        const TokenBatch& tokens) const override;
  at::Tensor LogitsGradient(const at::Tensor& log_probabilities, const TokenBatch& tokens,
                            double scale) const override;
  void Rotate(at::Tensor* heads) const override;
  Tensors Attend(const Qkv& qkv) const override;
  Qkv AttendBackward(const at::Tensor& gradient, const Qkv& qkv,
                     const Tensors& attended) const override;
  void RotateBack(const at::Tensor& gradient, bool rotates, at::Tensor* rows) const override;
  at::Tensor Gated(const at::Tensor& gate, const at::Tensor& up) const override;
  void GatedBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                     at::Tensor* gate_gradient, at::Tensor* up_gradient) const override;
  at::Tensor LossInPlace(at::Tensor* logits, const TokenBatch& tokens) const override;
  void AddLogitsOf(const at::Tensor& block, int64_t first, const TokenBatch& tokens,
                   LogitRows* rows) const override;
  void GradientOfBlock(const at::Tensor& log_sum, int64_t first, const TokenBatch& tokens,
                       double scale, at::Tensor* block) const override;
};

}  // namespace shardscope::model
