#include "engine/plan/formats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardscope::plan {
namespace {

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0F), 0x3F80);
  // Halfway between 0x3F80 and 0x3F81 goes to the even one, halfway between 0x3F81 and 0x3F82 too.
  EXPECT_EQ(FloatToBf16(Bf16ToFloat(0x3F80) + 0x1p-8F), 0x3F80);
  EXPECT_EQ(FloatToBf16(Bf16ToFloat(0x3F81) + 0x1p-8F), 0x3F82);
  EXPECT_EQ(FloatToBf16(std::nextafter(Bf16ToFloat(0x3F80) + 0x1p-8F, 2.0F)), 0x3F81);
  EXPECT_EQ(FloatToBf16(-0.0F), 0x8000);
  EXPECT_EQ(FloatToBf16(INFINITY), 0x7F80);
  EXPECT_EQ(FloatToBf16(3.4e38F), 0x7F80);  // above the largest bf16
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(NAN))));
}

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToBf16(value), bits);
  }
}

TEST(Bf16, ANanStaysOneWhateverItsFractionIs) {
  for (const uint32_t bits : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(FloatOfBits(bits))))) << std::hex << bits;
  }
}

TEST(Fp16, EveryValueIsThatOfItsExponentAndFraction) {
  constexpr int kMaxExponent = 31;
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = Fp16ToFloat(half);
    const auto exponent = static_cast<int>(bits >> 10 & 0x1F);
    const auto fraction = static_cast<int>(bits & 0x3FF);
    if (exponent == kMaxExponent && fraction > 0) {
      ASSERT_TRUE(std::isnan(value) && std::isnan(Fp16ToFloat(FloatToFp16(value)))) << bits;
      // Sign and fraction stay.
      ASSERT_EQ(BitsOfFloat(value), (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13);
      continue;
    }
    const double magnitude = exponent == kMaxExponent ? INFINITY
                             : exponent == 0          ? std::ldexp(fraction, -24)
                                                      : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(static_cast<double>(std::abs(value)), magnitude) << bits;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    ASSERT_EQ(FloatToFp16(value), bits);
  }
}

TEST(Fp16, RoundsToNearestEven) {
  constexpr uint16_t kLargest = 0x7BFF;
  for (uint16_t bits = 0; bits < kLargest; ++bits) {
    const auto next = static_cast<uint16_t>(bits + 1);
    const float halfway = (Fp16ToFloat(bits) + Fp16ToFloat(next)) / 2;  // exact in fp32
    ASSERT_EQ(FloatToFp16(halfway), bits % 2 == 0 ? bits : next);
    ASSERT_EQ(FloatToFp16(std::nextafter(halfway, 0.0F)), bits);
    ASSERT_EQ(FloatToFp16(std::nextafter(halfway, INFINITY)), next);
  }
  EXPECT_EQ(FloatToFp16(65519.0F), kLargest);
  EXPECT_EQ(FloatToFp16(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToFp16(-65520.0F), 0xFC00);
}

}  // namespace
}  // namespace shardscope::plan
