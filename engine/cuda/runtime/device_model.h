// DeviceModel: the segments of engine/model with tensor operations alone, for any device LibTorch
// computes on. The same formulas as engine/model/segments.cc, whose row loops are the CPU's.
//
// What differs from the CPU's: attention is the device's fused kernel (on CUDA FlashAttention for
// bf16 and fp16, the memory-efficient kernel for fp32), and sums are added in the device's order:
// equal to rounding, not to the bit. On one device all results repeat bit for bit: no operation
// here adds in an order that depends on timing, once LibTorch is told to be deterministic
// (CudaDevice does: the backward of both fused kernels would add atomically).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/cuda/runtime/turn.h"
#include "engine/model/model_config.h"
#include "engine/model/segments.h"

namespace shardscope::cuda {

class DeviceModel final : public model::SegmentModel {
 public:
  // `launch_turn` puts rotary positions on the device; null on the CPU.
  DeviceModel(const model::ModelConfig& config, at::Device device,
              LaunchTurn launch_turn = nullptr);

  at::Tensor NormBackward(const BackwardArgs& args, const at::Tensor& gradient,
                          at::Tensor* weight_gradient) const override;

 protected:
  model::Saved EmbeddingForward(const Tensors& parameters,
                                const model::TokenBatch& tokens) const override;
  model::Saved AttentionForward(const ForwardArgs& args) const override;
  void EmbeddingBackward(const BackwardArgs& args, Tensors* gradients) const override;
  at::Tensor AttentionBackward(const BackwardArgs& args, Tensors* gradients) const override;
  model::Saved Normed(const at::Tensor& input, const at::Tensor& weight) const override;
  at::Tensor MeanLossOf(const at::Tensor& log_probabilities,
                        const model::TokenBatch& tokens) const override;
  at::Tensor LogitsGradient(const at::Tensor& log_probabilities, const model::TokenBatch& tokens,
                            double scale) const override;
  void Rotate(at::Tensor* heads) const override;
  Tensors Attend(const Qkv& qkv) const override;
  Qkv AttendBackward(const at::Tensor& gradient, const Qkv& qkv,
                     const Tensors& attended) const override;
  void RotateBack(const at::Tensor& gradient, bool rotates, at::Tensor* rows) const override;
  at::Tensor Gated(const at::Tensor& gate, const at::Tensor& up) const override;
  void GatedBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                     at::Tensor* gate_gradient, at::Tensor* up_gradient) const override;
  at::Tensor LossInPlace(at::Tensor* logits, const model::TokenBatch& tokens) const override;
  void AddLogitsOf(const at::Tensor& block, int64_t first, const model::TokenBatch& tokens,
                   model::LogitRows* rows) const override;
  void GradientOfBlock(const at::Tensor& log_sum, int64_t first, const model::TokenBatch& tokens,
                       double scale, at::Tensor* block) const override;

 private:
  // Which of the tokens from `first` on is each row's target, [T, count].
  at::Tensor Hits(const model::TokenBatch& tokens, int64_t first, int64_t count) const;
  void Turn(const at::Tensor& heads, double direction) const;

  const LaunchTurn launch_turn_;
  const at::Tensor vocabulary_;  // 0, 1, ... of all tokens
};

}  // namespace shardscope::cuda
