#include "trace/base/number_list.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

TEST(NumberList, RanksAreNamedOneByOne) {
  EXPECT_EQ(RanksText({1}), "rank 1");
  EXPECT_EQ(RanksText({0, 1, 3}), "ranks 0, 1, 3");
}

TEST(NumberList, RunsAreNamedByTheirEnds) {
  EXPECT_EQ(RunsText({}), "");
  EXPECT_EQ(RunsText({5}), "5");
  EXPECT_EQ(RunsText({0, 1}), "0-1");
  EXPECT_EQ(RunsText({0, 1, 2, 3, 5, 7, 8}), "0-3,5,7-8");
}

}  // namespace
}  // namespace shardscope
