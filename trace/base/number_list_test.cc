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

TEST(NumberList, RunsAreRead) {
  const std::vector<NumberRun> runs = ParseRuns("7, 0 - 3");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].first, 7);
  EXPECT_EQ(runs[0].last, 7);
  EXPECT_EQ(runs[1].first, 0);
  EXPECT_EQ(runs[1].last, 3);
  for (const char* wrong : {"", "a", "0-", "-1", "3-1", "1-2-3", "1,", "4 5", "2147483648"}) {
    EXPECT_TRUE(ParseRuns(wrong).empty()) << wrong;
  }
}

TEST(NumberList, NumbersAscendAndAreNotTooMany) {
  EXPECT_EQ(ParseNumbers("0-2,7", 4), (std::vector<int32_t>{0, 1, 2, 7}));
  for (const char* wrong : {"", "7,0", "1,1", "0-2,2", "0-4", "0-2147483647"}) {
    EXPECT_FALSE(ParseNumbers(wrong, 4)) << wrong;
  }
}

}  // namespace
}  // namespace shardscope
