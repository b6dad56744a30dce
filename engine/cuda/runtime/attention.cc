#include "engine/cuda/runtime/attention.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include <utility>

namespace shardscope::cuda {
namespace {

constexpr double kNoDropout = 0.0;

// CUDA's FlashAttention takes half precision only.
bool IsFlash(const at::Tensor& query) { return query.scalar_type() == at::kBFloat16; }

}  // namespace

std::vector<at::Tensor> AttendCausally(const AttentionInputs& inputs) {
  const auto& [query, key, value] = inputs;
  if (query.is_cpu()) {
    auto [output, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, kNoDropout, /*is_causal=*/true);
    return {output, log_sum};
  }
  if (IsFlash(query)) {
    auto result =
        at::_scaled_dot_product_flash_attention(query, key, value, kNoDropout, /*is_causal=*/true);
    // The sequence lengths and the debug mask (2, 3, 8) belong to variants not used here.
    return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
  }
  auto [output, log_sum, seed, offset] = at::_scaled_dot_product_efficient_attention(
      query, key, value, std::nullopt, /*compute_log_sumexp=*/true, kNoDropout, /*is_causal=*/true);
  return {output, log_sum, seed, offset};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> AttendCausallyBackward(
    const at::Tensor& gradient, const AttentionInputs& inputs,
    const std::vector<at::Tensor>& attended) {
  const auto& [query, key, value] = inputs;
  const at::Tensor& output = attended[0];
  const at::Tensor& log_sum = attended[1];
  if (query.is_cpu()) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, query, key, value, output, log_sum, kNoDropout, /*is_causal=*/true);
  }
  if (IsFlash(query)) {
    const int64_t seq = query.size(2);
    return at::_scaled_dot_product_flash_attention_backward(
        gradient, query, key, value, output, log_sum, at::Tensor(), at::Tensor(), seq, seq,
        kNoDropout, /*is_causal=*/true, attended[2], attended[3]);
  }
  auto [query_gradient, key_gradient, value_gradient, bias_gradient] =
      at::_scaled_dot_product_efficient_attention_backward(
          gradient, query, key, value, at::Tensor(), output, log_sum, attended[2], attended[3],
          kNoDropout, {true, true, true, false}, /*is_causal=*/true);
  return {query_gradient, key_gradient, value_gradient};
}

}  // namespace shardscope::cuda
