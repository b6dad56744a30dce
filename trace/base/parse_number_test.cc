#include "trace/base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace shardscope {
namespace {

TEST(ParseInteger, TakesAllOfTheTextOrNothing) {
  EXPECT_EQ(ParseInteger<int32_t>("12"), 12);
  EXPECT_EQ(ParseInteger<int32_t>("-12"), -12);
  EXPECT_EQ(ParseInteger<int64_t>("007"), 7);
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1.0", "1e2", "0x1", "one"}) {
    EXPECT_EQ(ParseInteger<int32_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseInteger<int32_t>(std::string_view()), std::nullopt);
}

TEST(ParseInteger, HasLimits) {
  EXPECT_EQ(ParseInteger<int32_t>("2147483647"), INT32_MAX);
  EXPECT_EQ(ParseInteger<int32_t>("2147483648"), std::nullopt);
  EXPECT_EQ(ParseInteger<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(ParseInteger<int32_t>("0", 0), 0);
  EXPECT_EQ(ParseInteger<int32_t>("-1", 0), std::nullopt);
  EXPECT_EQ(ParseInteger<int32_t>("4", 5), std::nullopt);
}

}  // namespace
}  // namespace shardscope
