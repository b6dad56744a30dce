#include "trace/analysis/compare/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace shardscope::analysis {
namespace {

TEST(StepHistogram, OfNoStepsHasNoBins) {
  EXPECT_TRUE(HistogramOf({}, {}).bounds_ns.empty());
  EXPECT_TRUE(HistogramOf({}, {}).a.empty());
}

TEST(StepHistogram, BothSidesShareTheBinsAndEveryStepIsInOne) {
  const StepHistogram histogram = HistogramOf({1000, 1010, 1100}, {1490, 1500});
  ASSERT_EQ(histogram.a.size(), histogram.b.size());
  EXPECT_LE(histogram.a.size(), static_cast<size_t>(kMostBins));
  EXPECT_FALSE(histogram.is_logarithmic);
  EXPECT_EQ(histogram.bounds_ns.size(), histogram.a.size() + 1);
  EXPECT_EQ(histogram.bounds_ns.front(), 1000);
  EXPECT_EQ(histogram.bounds_ns[1], 1021);
  EXPECT_EQ(std::accumulate(histogram.a.begin(), histogram.a.end(), int64_t{0}), 3);
  EXPECT_EQ(std::accumulate(histogram.b.begin(), histogram.b.end(), int64_t{0}), 2);
  EXPECT_EQ(histogram.a.front(), 2);  // 1000 and 1010: a bin is 21 ns
  EXPECT_GE(histogram.b.back(), 1);
  EXPECT_EQ(histogram.b.front(), 0);
}

// In equal bins all of A would be in the first.
TEST(StepHistogram, OfSidesThatAreFarApartBinsAreLogarithmic) {
  const StepHistogram histogram =
      HistogramOf({1'000'000, 1'100'000, 1'500'000}, {100'000'000, 130'000'000, 160'000'000});
  EXPECT_TRUE(histogram.is_logarithmic);
  ASSERT_EQ(histogram.a.size(), static_cast<size_t>(kMostBins));
  ASSERT_EQ(histogram.b.size(), histogram.a.size());
  ASSERT_EQ(histogram.bounds_ns.size(), histogram.a.size() + 1);
  EXPECT_EQ(histogram.bounds_ns.front(), 1'000'000);
  EXPECT_EQ(histogram.bounds_ns.back(), 160'000'001);
  // The middle of 1 ms and 160 ms is 12.6 ms.
  EXPECT_EQ(histogram.bounds_ns[kMostBins / 2], 12'649'111);
  const auto used = [](const std::vector<int64_t>& counts) {
    return counts.size() - static_cast<size_t>(std::count(counts.begin(), counts.end(), 0));
  };
  EXPECT_EQ(used(histogram.a), 2u);  // a bin is 24 % longer than the one before it
  EXPECT_EQ(used(histogram.b), 2u);
  EXPECT_EQ(histogram.a.front(), 2);
  EXPECT_EQ(histogram.b.back(), 2);
  EXPECT_EQ(std::accumulate(histogram.b.begin(), histogram.b.end(), int64_t{0}), 3);
}

TEST(StepHistogram, OfAFewNanosecondsLogarithmicBinsAreNotEmptyOnes) {
  const StepHistogram histogram = HistogramOf({1, 2, 3}, {20});
  EXPECT_TRUE(histogram.is_logarithmic);
  EXPECT_EQ(std::adjacent_find(histogram.bounds_ns.begin(), histogram.bounds_ns.end(),
                               std::greater_equal<>()),
            histogram.bounds_ns.end());
  EXPECT_EQ(histogram.a.front(), 1);
  EXPECT_EQ(histogram.b.back(), 1);
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
