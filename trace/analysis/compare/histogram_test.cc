#include "trace/analysis/compare/histogram.h"

#include <gtest/gtest.h>

#include <numeric>

namespace shardscope::analysis {
namespace {

TEST(StepHistogram, OfNoStepsHasNoBins) {
  EXPECT_EQ(HistogramOf({}, {}).width_ns, 0);
  EXPECT_TRUE(HistogramOf({}, {}).a.empty());
}

TEST(StepHistogram, BothSidesShareTheBinsAndEveryStepIsInOne) {
  const StepHistogram histogram = HistogramOf({1000, 1010, 1100}, {1490, 1500});
  ASSERT_EQ(histogram.a.size(), histogram.b.size());
  EXPECT_LE(histogram.a.size(), static_cast<size_t>(kMostBins));
  EXPECT_EQ(histogram.first_ns, 1000);
  EXPECT_EQ(std::accumulate(histogram.a.begin(), histogram.a.end(), int64_t{0}), 3);
  EXPECT_EQ(std::accumulate(histogram.b.begin(), histogram.b.end(), int64_t{0}), 2);
  EXPECT_EQ(histogram.a.front(), 2);  // 1000 and 1010: a bin is 21 ns
  EXPECT_GE(histogram.b.back(), 1);
  EXPECT_EQ(histogram.b.front(), 0);
}

TEST(StepHistogram, StepsThatAreAlikeAreOneBin) {
  const StepHistogram histogram = HistogramOf({5, 5, 5}, {5});
  EXPECT_EQ(histogram.a, std::vector<int64_t>{3});
  EXPECT_EQ(histogram.b, std::vector<int64_t>{1});
}

TEST(StepHistogram, OneSideMayBeEmptyAndTimesLarge) {
  const int64_t large_ns = (int64_t{1} << 62) - 1;
  const StepHistogram histogram = HistogramOf({0, large_ns}, {});
  EXPECT_EQ(histogram.a.front(), 1);
  EXPECT_EQ(histogram.a.back(), 1);
  EXPECT_EQ(histogram.b.size(), histogram.a.size());
}

}  // namespace
}  // namespace shardscope::analysis
