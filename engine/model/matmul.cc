#include "engine/model/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "engine/model/matmul_scratch.h"

// What aten::mm calls for bf16 and fp16 (ATen/native/mkldnn/Matmul.h): LibTorch exports it, but
// does not install the header. result = beta * result + alpha * mat1 mat2.
namespace at::native {
void mkldnn_matmul(const at::Tensor& mat1, const at::Tensor& mat2, const at::Tensor& result,
                   float beta, float alpha);
}

namespace shardscope::model {
namespace {

bool IsOneDnns(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && a.scalar_type() == at::kFloat &&
         IsOneDnns(MatmulScratchOf(plan::DType::kFp32), a.size(0), b.size(1), a.size(1));
}

}  // namespace

at::Tensor Matmul(const at::Tensor& a, const at::Tensor& b) {
  if (!IsOneDnns(a, b)) return at::mm(a, b);
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  at::native::mkldnn_matmul(a, b, out, 0, 1);
  return out;
}

void MatmulInto(const at::Tensor& a, const at::Tensor& b, at::Tensor* out, double scale) {
  if (IsOneDnns(a, b)) {
    at::native::mkldnn_matmul(a, b, *out, 0, static_cast<float>(scale));
  } else if (scale == 1) {
    at::mm_out(*out, a, b);
  } else {
    at::addmm_out(*out, *out, a, b, 0, scale);
  }
}

void AddMatmul(const at::Tensor& a, const at::Tensor& b, at::Tensor* out, double scale) {
  if (IsOneDnns(a, b)) {
    at::native::mkldnn_matmul(a, b, *out, 1, static_cast<float>(scale));
  } else {
    out->addmm_(a, b, 1, scale);
  }
}

void MatmulPlus(const at::Tensor& addend, const at::Tensor& a, const at::Tensor& b,
                at::Tensor* out) {
  if (IsOneDnns(a, b)) {
    out->copy_(addend);
    AddMatmul(a, b, out);
  } else {
    at::addmm_out(*out, addend, a, b);
  }
}

}  // namespace shardscope::model
