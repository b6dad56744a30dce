// The transports among threads against the plain definition of each collective.
#include "engine/transport/collectives_test_util.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardscope::transport {
namespace {

INSTANTIATE_TEST_SUITE_P(Shared, CollectivesTest,
                         testing::ValuesIn(CasesOf("shared",
                                                   [](int num_ranks) {
                                                     return MakeSharedMemoryTransport(num_ranks,
                                                                                      kTimeoutNs);
                                                   })),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(Emulated, CollectivesTest,
                         testing::ValuesIn(CasesOf("emulated",
                                                   [](int num_ranks) {
                                                     return MakeEmulatedTransport(
                                                         num_ranks, kTimeoutNs, 1e12, 0);
                                                   })),
                         NameOfCase);

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

}  // namespace
}  // namespace shardscope::transport
