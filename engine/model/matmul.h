// Products of matrices on any device: LibTorch's ops, but on the CPU oneDNN's where IsOneDnns()
// says so. Any number of threads at once; on the CPU each product takes the calling thread alone if
// that called at::set_num_threads(1). Its bits are then the same for the same shapes and strides,
// if operands begin at a cache line.
#pragma once

#include <ATen/core/Tensor.h>

namespace shardscope::model {

// a [M, K] times b [K, N], of one type: [M, N]. Strides are any.
at::Tensor Matmul(const at::Tensor& a, const at::Tensor& b);

// The same into `out` [M, N], times `scale`: overwrites it,
void MatmulInto(const at::Tensor& a, const at::Tensor& b, at::Tensor* out, double scale = 1);
// adds to it,
void AddMatmul(const at::Tensor& a, const at::Tensor& b, at::Tensor* out, double scale = 1);
// or overwrites it with the sum of the product and `addend` ([N], or [M, N]).
void MatmulPlus(const at::Tensor& addend, const at::Tensor& a, const at::Tensor& b,
                at::Tensor* out);

}  // namespace shardscope::model
