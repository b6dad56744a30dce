#include "engine/model/stored_values.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace shardscope::model {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

// Of every size that any of the types has, the smallest and the largest too, and halfway between
// neighbours. So many that vectors are full, and some are left over.
at::Tensor Numbers() {
  std::vector<double> numbers = {0, -0.0, 1, -1, 65504, 65519, 65520, -65536, 3e38, -3.4e38, 1e300};
  for (int exponent = -160; exponent < 130; ++exponent) {
    for (const double fraction : {1.0, 1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-11, 1.7}) {
      numbers.push_back(std::ldexp(exponent % 2 == 0 ? fraction : -fraction, exponent));
    }
  }
  return at::tensor(numbers, at::kDouble);
}

// The same bytes, but behind an odd address.
std::vector<std::byte> Shifted(const at::Tensor& values) {
  std::vector<std::byte> bytes(1 + values.nbytes());
  std::memcpy(bytes.data() + 1, values.const_data_ptr(), values.nbytes());
  return bytes;
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

TEST(StoredValues, HaveTheBitsOfLibTorchsCasts) {
  for (const at::ScalarType from : kTypes) {
    at::Tensor stored = Numbers().to(from);
    stored = stored.masked_select(stored.isfinite());
    for (const at::ScalarType to : kTypes) {
      const at::Tensor converted = at::empty({stored.numel()}, to);
      EXPECT_TRUE(ConvertValues(Shifted(stored).data() + 1, from, stored.numel(), to,
                                converted.mutable_data_ptr()))
          << from;
      // As a cast from fp32 has them: to bf16 and fp16 there is no other way.
      const bool is_narrow = to == at::kBFloat16 || to == at::kHalf;
      const at::Tensor expected = (is_narrow ? stored.to(at::kFloat) : stored).to(to);
      EXPECT_TRUE(SameBits(converted, expected)) << from << " to " << to;
    }
  }
}

TEST(StoredValues, OneThatIsNotFiniteIsFoundWhereverItIs) {
  for (const at::ScalarType from : kTypes) {
    for (const double broken : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      for (const int64_t place : {0, 1, 17, 66}) {
        const at::Tensor stored = at::empty({67}, from).fill_(1.5);
        stored.narrow(0, place, 1).fill_(broken);
        for (const at::ScalarType to : kTypes) {
          const at::Tensor converted = at::empty({67}, to);
          const auto convert = [&](int64_t count) {
            return ConvertValues(Shifted(stored).data() + 1, from, count, to,
                                 converted.mutable_data_ptr());
          };
          EXPECT_FALSE(convert(67)) << from << " to " << to << " at " << place;
          EXPECT_TRUE(convert(place)) << "what comes before it";
        }
      }
    }
  }
}

TEST(StoredValues, TheFilesNumberCountsNotWhatItBecomes) {
  const at::Tensor large = at::tensor(std::vector<double>{1e300}, at::kDouble);
  const at::Tensor narrow = at::empty({1}, at::kHalf);
  EXPECT_TRUE(ConvertValues(Shifted(large).data() + 1, at::kDouble, 1, at::kHalf,
                            narrow.mutable_data_ptr()));
  EXPECT_TRUE(std::isinf(narrow.item<double>()));
}

}  // namespace
}  // namespace shardscope::model
