// Causal attention by the device's fused kernel, and its backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

namespace shardscope::cuda {

// Views of [batch, heads, seq, head_dim] with contiguous channels.
struct AttentionInputs {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

// The output, [batch, heads, seq, head_dim] whose memory order is [batch, seq, heads, head_dim],
// then what the backward needs beside it.
std::vector<at::Tensor> AttendCausally(const AttentionInputs& inputs);

// Gradients of query, key and value. `attended` is what AttendCausally() returned.
std::tuple<at::Tensor, at::Tensor, at::Tensor> AttendCausallyBackward(
    const at::Tensor& gradient, const AttentionInputs& inputs,
    const std::vector<at::Tensor>& attended);

}  // namespace shardscope::cuda
