#include "app/train/tokenizing_told.h"

#include <gtest/gtest.h>

namespace shardscope::app {
namespace {

using std::chrono::milliseconds;

TEST(TokenizingTold, SaysWhatTakesLongerThanASecond) {
  constexpr int64_t kAll = 80'000'000;
  const TokenizingTold::Time start = TokenizingTold::Time() + std::chrono::hours(1);
  TokenizingTold told;
  EXPECT_EQ(told.LineAt(start, 0, kAll), "");
  EXPECT_EQ(told.LineAt(start + milliseconds(999), 9'000'000, kAll), "");
  EXPECT_EQ(told.LineAt(start + milliseconds(1001), 10'000'000, kAll),
            "tokenising 80.0 MB of text: 12 %");
  EXPECT_EQ(told.LineAt(start + milliseconds(6000), 50'000'000, kAll), "");
  EXPECT_EQ(told.LineAt(start + milliseconds(6001), 60'000'000, kAll),
            "tokenising 80.0 MB of text: 75 %");
  // Of other text it is counted anew.
  EXPECT_EQ(told.LineAt(start + milliseconds(7000), 0, 1000), "");
  EXPECT_EQ(told.LineAt(start + milliseconds(7500), 500, 1000), "");
  EXPECT_EQ(told.LineAt(start + milliseconds(8000), 600, 1000), "tokenising 1.00 kB of text: 60 %");
}

}  // namespace
}  // namespace shardscope::app
