#include "trace/import/kineto/decimal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace shardscope::imports {
namespace {

TEST(Decimal, MicrosecondsKeepEveryNanosecond) {
  EXPECT_EQ(ParseMicroseconds("1700000000000000.123"), 1'700'000'000'000'000'123);
  EXPECT_EQ(ParseMicroseconds("1700000000000000.001"), 1'700'000'000'000'000'001);
  EXPECT_EQ(ParseMicroseconds("12"), 12'000);
  EXPECT_EQ(ParseMicroseconds("0.5"), 500);
  EXPECT_EQ(ParseMicroseconds("0.0009"), 0);
  EXPECT_EQ(ParseMicroseconds("-1.25"), -1'250);
}

TEST(Decimal, ExponentsMoveThePoint) {
  EXPECT_EQ(ParseMicroseconds("1.5e3"), 1'500'000);
  EXPECT_EQ(ParseMicroseconds("1e-3"), 1);
  EXPECT_EQ(ParseMicroseconds("123456E-4"), 12'345);
  EXPECT_EQ(ParseMicroseconds("1e-400"), 0);
}

TEST(Decimal, WhatIsNoTimeIsNone) {
  for (const char* const text : {"", "-", ".", "NaN", "inf", "1e", "1.2.3", "0x10", "1e400",
                                 "99999999999999999999", "12 34"}) {
    EXPECT_EQ(ParseMicroseconds(text), std::nullopt) << text;
  }
}

TEST(Decimal, WholeNumbersAreWhole) {
  EXPECT_EQ(ParseWhole("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(ParseWhole("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(ParseWhole("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ParseWhole("3.0"), 3);
  EXPECT_EQ(ParseWhole("2e2"), 200);
  EXPECT_EQ(ParseWhole("3.5"), std::nullopt);
}

}  // namespace
}  // namespace shardscope::imports
