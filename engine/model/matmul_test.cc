#include "engine/model/matmul.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/model/initialize.h"

namespace shardscope::model {
namespace {

struct Shape {
  int64_t rows;
  int64_t columns;
  int64_t inner;
};
// On both sides of what IsOneDnns() asks, and with edges.
constexpr Shape kShapes[] = {
    {3, 5, 7}, {64, 96, 32}, {512, 512, 512}, {256, 1408, 192}, {131, 515, 257}};

at::Tensor Values(int64_t rows, int64_t columns, at::ScalarType type, uint64_t seed) {
  at::Tensor values = at::empty({rows, columns}, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const uint64_t bits = MixedBits(seed, static_cast<uint64_t>(i));
    values.mutable_data_ptr<double>()[i] = static_cast<double>(bits % 2001) / 1000 - 1;
  }
  return values.to(type);
}

// The operand as it is, or the same values with columns one behind the other.
at::Tensor Stored(const at::Tensor& operand, bool transposed) {
  return transposed ? operand.t().contiguous().t() : operand;
}

class MatmulTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void ExpectNear(const at::Tensor& out, const at::Tensor& expected, int64_t inner) {
    const double epsilon = GetParam() == at::kBFloat16 ? 1.0 / 128
                           : GetParam() == at::kFloat  ? 1e-6
                                                       : 1e-14;
    const double off = (out.to(at::kDouble) - expected).abs().max().item<double>();
    EXPECT_LE(off, epsilon * static_cast<double>(inner));
  }
  c10::InferenceMode guard_;
};

TEST_P(MatmulTest, EveryFormIsTheProductThatItSays) {
  for (const Shape& shape : kShapes) {
    const at::Tensor a = Values(shape.rows, shape.inner, GetParam(), 1);
    const at::Tensor b = Values(shape.inner, shape.columns, GetParam(), 2);
    const at::Tensor before = Values(shape.rows, shape.columns, GetParam(), 3);
    const at::Tensor bias = Values(1, shape.columns, GetParam(), 4).squeeze(0);
    const at::Tensor product = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
    for (const int stored : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + " x " +
                   std::to_string(shape.inner) + ", stored " + std::to_string(stored));
      const at::Tensor left = Stored(a, (stored & 1) != 0);
      const at::Tensor right = Stored(b, (stored & 2) != 0);
      ExpectNear(Matmul(left, right), product, shape.inner);
      at::Tensor out = before.clone();
      MatmulInto(left, right, &out);
      ExpectNear(out, product, shape.inner);
      MatmulInto(left, right, &out, 0.25);
      ExpectNear(out, product * 0.25, shape.inner);
      out.copy_(before);
      AddMatmul(left, right, &out);
      ExpectNear(out, before.to(at::kDouble) + product, shape.inner);
      out.copy_(before);
      AddMatmul(left, right, &out, -0.5);
      ExpectNear(out, before.to(at::kDouble) - product * 0.5, shape.inner);
      MatmulPlus(before, left, right, &out);
      ExpectNear(out, before.to(at::kDouble) + product, shape.inner);
      MatmulPlus(bias, left, right, &out);
      ExpectNear(out, bias.to(at::kDouble) + product, shape.inner);
    }
  }
}

// What a rank computes does not depend on where a unit's memory lies, which begins at a cache line:
// MKL's bits depend on the place within one.
TEST_P(MatmulTest, BitsRepeatWhereverOperandsLie) {
  for (const Shape& shape : kShapes) {
    const at::Tensor a = Values(shape.rows, shape.inner, GetParam(), 1);
    const at::Tensor b = Values(shape.columns, shape.inner, GetParam(), 2);
    const at::Tensor once = Matmul(a, b.t());
    EXPECT_TRUE(Matmul(a, b.t()).equal(once));
    for (const int64_t offset : {32, 96}) {
      at::Tensor memory = at::empty({b.numel() + offset}, b.options());
      at::Tensor moved = memory.narrow(0, offset, b.numel()).view(b.sizes());
      moved.copy_(b);
      EXPECT_TRUE(Matmul(a, moved.t()).equal(once)) << offset;
      at::Tensor out_memory = at::empty({once.numel() + offset}, b.options());
      at::Tensor out = out_memory.narrow(0, offset, once.numel()).view(once.sizes());
      MatmulInto(a, moved.t(), &out);
      EXPECT_TRUE(out.equal(once)) << offset;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16));

}  // namespace
}  // namespace shardscope::model
