#include "trace/base/byte_width.h"

#include <gtest/gtest.h>

#include <string>

namespace shardscope {
namespace {

TEST(ByteWidth, IsTheLeastThatHoldsTheNumber) {
  EXPECT_EQ(ByteWidth(0), 0U);
  EXPECT_EQ(ByteWidth(1), 1U);
  for (size_t width = 1; width <= 8; ++width) {
    EXPECT_EQ(ByteWidth(ByteMask(width)), width);
    EXPECT_EQ(ByteWidth(ByteMask(width - 1) + 1), width);
  }
}

TEST(ByteWidth, MaskHasTheBitsOfItsBytes) {
  EXPECT_EQ(ByteMask(0), 0U);
  EXPECT_EQ(ByteMask(1), 0xffU);
  EXPECT_EQ(ByteMask(3), 0xff'ffffU);
  EXPECT_EQ(ByteMask(8), UINT64_MAX);
}

TEST(ByteWidth, NumbersAreReadAtAnyPlaceWithoutTheirNeighbours) {
  const std::string bytes =
      std::string("\x11\x22\x33\x44", 4) + std::string(kByteWidthPadding, 'x');
  EXPECT_EQ(MaskedNumber(bytes.data(), ByteMask(0)), 0U);
  EXPECT_EQ(MaskedNumber(bytes.data(), ByteMask(2)), 0x2211U);
  EXPECT_EQ(MaskedNumber(bytes.data() + 1, ByteMask(3)), 0x44'3322U);
  EXPECT_EQ(MaskedNumber(bytes.data() + 4, ByteMask(8)), 0x7878'7878'7878'7878U);
}

}  // namespace
}  // namespace shardscope
