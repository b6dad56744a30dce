// DeviceModel: the segments of engine/model with tensor operations alone, for any device LibTorch
// computes on. The same formulas as engine/model/segments.cc, whose row loops are the CPU's.
//
// What differs from the CPU's: attention is the device's fused kernel (on CUDA FlashAttention for
// bf16, the memory-efficient kernel for fp32), and sums are added in the device's order: equal to
// rounding, not to the bit. On one device all results repeat bit for bit: no operation here adds
// in an order that depends on timing, once LibTorch is told to be deterministic (CudaDevice does:
// the backward of both fused kernels would add atomically).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/segments.h"

namespace shardscope::cuda {

// Token ids of a micro-batch on the device, [batch * seq] each.
struct DeviceTokens {
  at::Tensor inputs;
  at::Tensor targets;
};

// Threads: const after construction; any number of threads at once, each with its own current
// stream. Callers switch autograd off (c10::InferenceMode).
class DeviceModel {
 public:
  DeviceModel(const model::ModelConfig& config, at::Device device);

  // As model::Model; of the head, `output` is the mean loss.
  model::Saved Forward(int64_t segment, const std::vector<at::Tensor>& parameters,
                       const at::Tensor& input, const DeviceTokens& tokens) const;

  struct BackwardArgs {
    const std::vector<at::Tensor>& parameters;
    const at::Tensor& input;
    const model::Saved& saved;
    const at::Tensor& output_gradient;
    const DeviceTokens& tokens;
  };
  // Overwrites `gradients`; returns the input's gradient (undefined for the embedding).
  at::Tensor Backward(int64_t segment, const BackwardArgs& args,
                      std::vector<at::Tensor>* gradients) const;

 private:
  model::Saved Normed(const at::Tensor& input, const at::Tensor& weight) const;
  at::Tensor NormBackward(const BackwardArgs& args, const at::Tensor& gradient,
                          at::Tensor* weight_gradient) const;
  at::Tensor Part(const at::Tensor& qkv, int64_t part) const;
  void Rotate(const at::Tensor& heads, double direction) const;

  model::Saved AttentionForward(const std::vector<at::Tensor>& parameters,
                                const at::Tensor& input) const;
  model::Saved MlpForward(const std::vector<at::Tensor>& parameters, const at::Tensor& input) const;
  model::Saved HeadForward(const std::vector<at::Tensor>& parameters, const at::Tensor& input,
                           const DeviceTokens& tokens) const;
  at::Tensor AttentionBackward(const BackwardArgs& args, std::vector<at::Tensor>* gradients) const;
  at::Tensor MlpBackward(const BackwardArgs& args, std::vector<at::Tensor>* gradients) const;
  at::Tensor HeadBackward(const BackwardArgs& args, std::vector<at::Tensor>* gradients) const;

  const model::ModelConfig config_;
  const at::ScalarType type_;
  const at::ScalarType wide_;
  const at::Tensor rotary_;      // [seq, 2, head_dim / 2]
  const at::Tensor vocabulary_;  // 0 .. 255
};

}  // namespace shardscope::cuda
