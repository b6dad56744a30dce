#include "trace/base/round_up.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace shardscope {
namespace {

TEST(RoundUp, GivesTheNextMultipleOrTheValueItself) {
  EXPECT_EQ(RoundUp(0, 64), 0);
  EXPECT_EQ(RoundUp(1, 64), 64);
  EXPECT_EQ(RoundUp(64, 64), 64);
  EXPECT_EQ(RoundUp(65, 64), 128);
  EXPECT_EQ(RoundUp(7, 3), 9);
  EXPECT_EQ(RoundUp(size_t{5}, size_t{1}), size_t{5});
  EXPECT_EQ(RoundUp((int64_t{1} << 40) + 1, int64_t{512}), (int64_t{1} << 40) + 512);
}

}  // namespace
}  // namespace shardscope
