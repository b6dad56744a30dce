#include "trace/analysis/compare/shift.h"

#include <gtest/gtest.h>

#include <random>

namespace shardscope::analysis {
namespace {

std::vector<int64_t> Steps(int count, int64_t mean_ns, int64_t noise_ns, int seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  std::vector<int64_t> steps;
  for (int i = 0; i < count; ++i)
    steps.push_back(mean_ns + static_cast<int64_t>(random() % static_cast<uint64_t>(2 * noise_ns)) -
                    noise_ns);
  return steps;
}

TEST(Shift, OfFewStepsIsNotKnown) {
  EXPECT_FALSE(ShiftBetween({1, 2}, {5, 6, 7}).known);
  EXPECT_TRUE(ShiftBetween({1, 2, 3}, {5, 6, 7}).known);
}

TEST(Shift, OfTheSameStepsIsNone) {
  const std::vector<int64_t> steps = Steps(20, 1'000'000, 10'000, 1);
  const Shift shift = ShiftBetween(steps, steps);
  EXPECT_EQ(shift.estimate_ns, 0);
  EXPECT_LE(shift.low_ns, 0);
  EXPECT_GE(shift.high_ns, 0);
  EXPECT_FALSE(shift.excludes_zero());
}

// All differences of {1, 2, 3, 4} and {11, 12, 13, 14} by hand: 7 to 13, their median is 10. With
// four values each one order in 70 has no pair in the wrong order, so the interval has one
// difference less on each side than all: 2 / 70 lies outside.
TEST(Shift, OfFewStepsByHand) {
  const Shift shift = ShiftBetween({1, 2, 3, 4}, {11, 12, 13, 14});
  EXPECT_EQ(shift.estimate_ns, 10);
  EXPECT_EQ(shift.low_ns, 7);
  EXPECT_EQ(shift.high_ns, 13);
  EXPECT_NEAR(shift.confidence, 1 - 2.0 / 70, 1e-12);
  EXPECT_TRUE(shift.excludes_zero());
}

// Of 200 pairs of ranges without a difference some 5 % may seem to have one; of those with one of
// twice the noise all have, and the interval holds it in some 95 %.
TEST(Shift, HoldsTheDifferenceAsOftenAsItSays) {
  int false_alarms = 0;
  int held = 0;
  constexpr int kRounds = 200;
  constexpr int64_t kDifference = 20'000;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<int64_t> a = Steps(12, 1'000'000, 10'000, 2 * round);
    std::vector<int64_t> b = Steps(12, 1'000'000, 10'000, 2 * round + 1);
    if (ShiftBetween(a, b).excludes_zero()) ++false_alarms;
    for (int64_t& step : b) step += kDifference;
    const Shift shift = ShiftBetween(a, b);
    EXPECT_TRUE(shift.excludes_zero());
    if (shift.low_ns <= kDifference && kDifference <= shift.high_ns) ++held;
  }
  EXPECT_LE(false_alarms, kRounds / 10);
  EXPECT_GE(held, kRounds * 9 / 10);
}

TEST(Shift, ItsIntervalReachesToADifferenceThatIsShownWithIt) {
  Shift shift = ShiftBetween({1, 2, 3, 4}, {11, 12, 13, 14});
  shift.Include(9.5);
  EXPECT_EQ(shift.low_ns, 7);
  EXPECT_EQ(shift.high_ns, 13);
  shift.Include(13.5);
  EXPECT_EQ(shift.high_ns, 14);
  shift.Include(-0.5);
  EXPECT_EQ(shift.low_ns, -1);
  EXPECT_FALSE(shift.excludes_zero());
  EXPECT_EQ(shift.estimate_ns, 10);
  Shift unknown;
  unknown.Include(5);
  EXPECT_EQ(unknown.high_ns, 0);
}

TEST(Shift, IsNotMovedByOneStepFarOff) {
  std::vector<int64_t> a = Steps(20, 1'000'000, 1'000, 5);
  const std::vector<int64_t> b = Steps(20, 1'000'000, 1'000, 6);
  a.back() = int64_t{1} << 60;
  EXPECT_LT(std::abs(ShiftBetween(a, b).estimate_ns), 1'000);
}

}  // namespace
}  // namespace shardscope::analysis
