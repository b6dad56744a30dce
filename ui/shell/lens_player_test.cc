#include "ui/shell/lens_player.h"

#include <gtest/gtest.h>

#include <memory>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::shell {
namespace {

constexpr int64_t kMs = 1'000'000;

// A stretch of 100 ms that begins at 1 s.
class LensPlayerTest : public testing::Test {
 protected:
  LensPlayerTest() { player_.Open({kStart, kStart + 100 * kMs}, 7); }

  // Where it stands from the start of the stretch.
  double PositionMs() const { return static_cast<double>(lens_.now_ns - kStart) / 1e6; }

  static constexpr int64_t kStart = 1'000 * kMs;
  ui::LensState lens_;
  LensPlayer player_{&lens_};
};

TEST_F(LensPlayerTest, OpensAtTheStartAndStands) {
  EXPECT_TRUE(lens_.is_on);
  EXPECT_FALSE(lens_.plays);
  EXPECT_EQ(lens_.step, 7);
  player_.Advance(1000);
  EXPECT_EQ(PositionMs(), 0);
}

TEST_F(LensPlayerTest, OpensAtASpeedAtWhichThereIsTimeToLook) {
  EXPECT_EQ(lens_.slowness, 100);  // ten seconds
  player_.Open({0, 10 * kMs}, -1);
  EXPECT_EQ(lens_.slowness, 1'000);
  player_.Open({0, 10'000 * kMs}, -1);
  EXPECT_EQ(lens_.slowness, 10);
  player_.Open({0, 1}, -1);
  EXPECT_EQ(lens_.slowness, 10'000);
}

TEST_F(LensPlayerTest, PlaysAtItsShareOfTheRealSpeedAndStopsAtTheEnd) {
  player_.Play(true, 20);
  player_.Advance(21);
  EXPECT_DOUBLE_EQ(PositionMs(), 10);  // a hundredth of a second
  player_.Advance(25);
  EXPECT_DOUBLE_EQ(PositionMs(), 50);
  EXPECT_TRUE(lens_.plays);
  player_.Advance(31);
  EXPECT_EQ(PositionMs(), 100);
  EXPECT_FALSE(lens_.plays);
  player_.Play(true, 40);  // anew
  player_.Advance(41);
  EXPECT_DOUBLE_EQ(PositionMs(), 10);
}

TEST_F(LensPlayerTest, AChangeOfSpeedGoesOnFromWhereItIs) {
  player_.Play(true, 0);
  player_.Advance(2);
  player_.SetSlowness(10, 2);
  EXPECT_DOUBLE_EQ(PositionMs(), 20);
  player_.Advance(2.1);
  EXPECT_NEAR(PositionMs(), 30, 1e-6);
  player_.Play(false, 2.1);
  player_.Advance(50);
  EXPECT_NEAR(PositionMs(), 30, 1e-6);
}

TEST_F(LensPlayerTest, SeeksWithinItsStretchOnly) {
  player_.Play(true, 0);
  player_.Seek(kStart + 60 * kMs, 5);
  player_.Advance(6);
  EXPECT_DOUBLE_EQ(PositionMs(), 70);
  player_.Seek(kStart - 5, 6);
  EXPECT_EQ(PositionMs(), 0);
  player_.Seek(kStart + 900 * kMs, 6);
  EXPECT_EQ(PositionMs(), 100);
}

TEST_F(LensPlayerTest, StepsToWhereOpsBeginAndEnd) {
  analysis::TestSnapshot test(1);
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0");
  test.Run(0, 0, forward, kStart + 10 * kMs, kStart + 30 * kMs);
  test.Step(0, 0, kStart, kStart + 100 * kMs);
  player_.Step(1, 0);  // nothing is known yet
  EXPECT_EQ(PositionMs(), 0);
  lens_.moments = std::make_shared<const analysis::Moments>(test.Build(),
                                                            Interval{lens_.start_ns, lens_.end_ns});
  player_.Play(true, 0);
  for (const double expected : {10.0, 30.0, 100.0, 100.0}) {
    player_.Step(1, 0);
    EXPECT_EQ(PositionMs(), expected);
  }
  EXPECT_FALSE(lens_.plays);
  for (const double expected : {30.0, 10.0, 0.0, 0.0}) {
    player_.Step(-1, 0);
    EXPECT_EQ(PositionMs(), expected);
  }
}

TEST_F(LensPlayerTest, TellsTheMomentOfItsNow) {
  analysis::TestSnapshot test(1);
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0");
  test.Run(0, 0, forward, kStart + 10 * kMs, kStart + 30 * kMs);
  test.Step(0, 0, kStart, kStart + 100 * kMs);
  player_.Advance(0);
  EXPECT_FALSE(lens_.moment.has_value());
  lens_.moments = std::make_shared<const analysis::Moments>(test.Build(),
                                                            Interval{lens_.start_ns, lens_.end_ns});
  player_.Seek(kStart + 20 * kMs, 0);
  player_.Advance(0);
  ASSERT_TRUE(lens_.moment.has_value());
  EXPECT_EQ(lens_.moment->time_ns, kStart + 20 * kMs);
  EXPECT_DOUBLE_EQ(lens_.moment->ranks[0].compute.at(0).done, 0.5);
}

TEST_F(LensPlayerTest, ClosedItDoesNothing) {
  player_.Play(true, 0);
  player_.Close();
  player_.Play(true, 1);
  player_.Seek(5, 1);
  player_.Step(1, 1);
  player_.Advance(2);
  EXPECT_FALSE(lens_.is_on);
  EXPECT_FALSE(lens_.plays);
  EXPECT_EQ(lens_.now_ns, 0);
}

}  // namespace
}  // namespace shardscope::shell
