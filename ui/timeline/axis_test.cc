#include "ui/timeline/axis.h"

#include <gtest/gtest.h>

#include "trace/base/time.h"

namespace shardscope::timeline {
namespace {

TEST(AxisTest, EndsOfTheRangeLandOnTheEdges) {
  const int64_t start = 987'654'321'000'000'123;  // months of uptime: a float would lose it
  const Axis axis({start, start + 8'000}, 100, 800);
  EXPECT_FLOAT_EQ(axis.X(start), 100);
  EXPECT_FLOAT_EQ(axis.X(start + 8'000), 900);
  EXPECT_FLOAT_EQ(axis.X(start + 10), 101);
  for (int64_t ns = 0; ns <= 8'000; ns += 10) EXPECT_EQ(axis.Ns(axis.X(start + ns)), start + ns);
}

TEST(AxisTest, FarTimesStayFiniteAndOrdered) {
  const Axis axis({0, 1'000}, 0, 1'000);
  EXPECT_LT(axis.X(-kNsPerSecond * 1'000'000), -50'000);
  EXPECT_GT(axis.X(kNsPerSecond * 1'000'000), 50'000);
  EXPECT_LT(axis.X(kNsPerSecond * 1'000'000), 1e6F);
}

TEST(AxisTest, EmptyRangeAndWidthAreSafe) {
  const Axis axis({5, 5}, 0, 0);
  EXPECT_FLOAT_EQ(axis.X(5), 0);
  EXPECT_GT(axis.ns_per_pixel(), 0);
}

TEST(ZoomTest, AnchorKeepsItsPlace) {
  const Range range{1'000'000, 5'000'000};
  for (const int64_t anchor : {1'000'000, 2'345'678, 5'000'000}) {
    for (const double factor : {0.8, 1.25, 0.5}) {
      const Range zoomed = Zoom(range, anchor, factor, 0);
      EXPECT_NEAR(static_cast<double>(zoomed.length_ns()), 4e6 * factor, 1);
      const Axis before(range, 0, 1000);
      const Axis after(zoomed, 0, 1000);
      EXPECT_NEAR(before.X(anchor), after.X(anchor), 0.01);
    }
  }
}

TEST(ZoomTest, LimitsHold) {
  EXPECT_EQ(Zoom({0, 2'000}, 500, 1e-6, 0).length_ns(), kMinRangeNs);
  EXPECT_EQ(Zoom({0, 2'000}, 500, 1e6, 9'000).length_ns(), 9'000);
}

TEST(ZoomTest, WheelUpThenDownIsIdentity) {
  EXPECT_DOUBLE_EQ(WheelFactor(1, false, false) * WheelFactor(-1, false, false), 1);
  EXPECT_DOUBLE_EQ(WheelFactor(-1, false, false), 1.25);
  EXPECT_DOUBLE_EQ(WheelFactor(-1, true, false), 1.05);
  EXPECT_DOUBLE_EQ(WheelFactor(-1, false, true), 1.5);
}

TEST(ZoomTest, FitContainsTheSpan) {
  const Range fit = FitWithMargin({100, 100});
  EXPECT_LT(fit.start_ns, 100);
  EXPECT_GT(fit.end_ns, 100);
}

TEST(TicksTest, StepIsRoundAndWideEnough) {
  for (double ns_per_pixel = 0.5; ns_per_pixel < 1e9; ns_per_pixel *= 1.7) {
    const int64_t step = TickStepNs(ns_per_pixel, 90);
    EXPECT_GE(static_cast<double>(step) / ns_per_pixel, 90);
    EXPECT_LE(static_cast<double>(step) / ns_per_pixel, 90 * 2.5 + 2);
    int64_t digits = step;
    while (digits % 10 == 0) digits /= 10;
    EXPECT_TRUE(digits == 1 || digits == 2 || digits == 5) << step;
  }
}

TEST(TicksTest, LabelHasTheDecimalsOfItsStep) {
  EXPECT_EQ(TickLabel(20 * kNsPerMs, 20 * kNsPerMs), "+20 ms");
  EXPECT_EQ(TickLabel(250 * kNsPerUs, 50 * kNsPerUs), "+0.25 ms");
  EXPECT_EQ(TickLabel(1'500, 500), "+0.0015 ms");
  EXPECT_EQ(TickLabel(2 * kNsPerSecond, 500 * kNsPerMs), "+2000 ms");
  EXPECT_EQ(TickLabel(2 * kNsPerSecond, kNsPerSecond), "+2 s");
  EXPECT_EQ(TickLabel(0, kNsPerSecond), "+0 s");
  EXPECT_EQ(TickLabel(-600 * kNsPerSecond, 100 * kNsPerSecond), "-600 s");
}

TEST(TicksTest, RoundMaximumHoldsTheValue) {
  EXPECT_EQ(RoundMaxBytes(48'500'000), 50'000'000);
  EXPECT_EQ(RoundMaxBytes(52'000'000), 60'000'000);
  EXPECT_EQ(RoundMaxBytes(0), 1000);
  for (int64_t bytes = 1; bytes < 1'000'000'000'000; bytes = bytes * 3 / 2 + 1) {
    EXPECT_GE(RoundMaxBytes(bytes), bytes);
    EXPECT_LE(RoundMaxBytes(bytes), std::max<int64_t>(1000, bytes * 3 / 2 + 1));
  }
}

TEST(TicksTest, LabelStride) {
  EXPECT_EQ(LabelStride(3, 800, 70), 1);
  EXPECT_EQ(LabelStride(100, 800, 70), 10);
  EXPECT_EQ(LabelStride(30, 800, 70), 5);
}

}  // namespace
}  // namespace shardscope::timeline
