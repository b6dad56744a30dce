// Pace with a clock and a window of the test: input is taken in every turn, and slow frames leave
// time for it.
#include "ui/shell/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace shardscope::shell {
namespace {

constexpr double kDataSeconds = 0.1;
constexpr double kSlowFrame = 0.15;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Time passes in frames and in waits only. An input comes at `input_at`.
class FakeHost : public PaceHost {
 public:
  double Now() override { return now; }
  void TakeInput(double seconds) override {
    ++looks;
    const double end = now + seconds;
    if (woken) {
      woken = false;
    } else {
      now = std::min(end, std::max(now, std::min(input_at, close_at)));
    }
    if (input_at <= now) {
      has_input = true;
      input_at = kNever;
    }
    closing = closing || close_at <= now;
  }
  bool HasInput() override { return has_input; }
  bool IsClosing() override { return closing; }
  void Wake() override { woken = true; }
  double SecondsUntilPoll() override { return until_poll; }
  bool Poll() override { return polled_is_new; }

  double now = 0;
  double input_at = kNever;
  double close_at = kNever;
  double until_poll = 3600;
  bool polled_is_new = false;
  bool has_input = false;
  bool closing = false;
  bool woken = false;
  int looks = 0;
};

// A frame that takes `seconds` and answers the input that there was when it began; rows come while
// it is drawn.
void Frame(FakeHost* host, Pace* pace, double seconds, bool rows) {
  pace->BeginFrame();
  host->has_input = false;
  host->now += seconds;
  if (rows) pace->WakeForData();
  pace->EndFrame();
}

TEST(Pace, TakesInputInEveryTurnWhileRowsPourIn) {
  FakeHost host;
  Pace pace(&host, kDataSeconds);
  for (int turn = 1; turn <= 100; ++turn) {
    Frame(&host, &pace, kSlowFrame, true);
    const int before = host.looks;
    pace.Wait();
    EXPECT_GT(host.looks, before) << "turn " << turn;
  }
}

TEST(Pace, AnswersAnInputThatCameWhileAFrameWasDrawnWithTheNext) {
  FakeHost host;
  Pace pace(&host, kDataSeconds);
  Frame(&host, &pace, kSlowFrame, true);
  host.input_at = host.now - kSlowFrame / 2;
  const double end = host.now;
  pace.Wait();
  EXPECT_TRUE(host.has_input);
  EXPECT_EQ(host.now, end);
}

TEST(Pace, AnswersAnInputThatComesWhileRowsAreRationedAtOnce) {
  FakeHost host;
  Pace pace(&host, kDataSeconds);
  Frame(&host, &pace, kSlowFrame, true);
  host.input_at = host.now + 0.01;
  pace.Wait();
  EXPECT_TRUE(host.has_input);
  EXPECT_DOUBLE_EQ(host.now, kSlowFrame + 0.01);
}

TEST(Pace, SlowFramesLeaveHalfOfTheTimeForInput) {
  for (const double until_poll : {3600.0, 0.0}) {  // for rows; because something moves
    FakeHost host;
    host.until_poll = until_poll;
    Pace pace(&host, kDataSeconds);
    double drawing = 0;
    for (int turn = 0; turn < 20; ++turn) {
      Frame(&host, &pace, kSlowFrame, true);
      drawing += kSlowFrame;
      pace.Wait();
    }
    EXPECT_LE(drawing, host.now / 2 + 1e-9);
  }
}

TEST(Pace, QuickFramesForRowsAreRationedAndThoseOfAnAnimationAreNot) {
  FakeHost host;
  Pace pace(&host, kDataSeconds);
  Frame(&host, &pace, 0.01, true);
  pace.Wait();
  EXPECT_DOUBLE_EQ(host.now, kDataSeconds);
  host.until_poll = 0;
  Frame(&host, &pace, 0.01, true);
  pace.Wait();
  EXPECT_DOUBLE_EQ(host.now, kDataSeconds + 0.01);
}

TEST(Pace, RowsEndAWaitForNothing) {
  FakeHost host;
  Pace pace(&host, kDataSeconds);
  Frame(&host, &pace, 0.01, false);
  host.now = 10;
  pace.WakeForData();
  EXPECT_TRUE(host.woken);
  pace.Wait();
  EXPECT_DOUBLE_EQ(host.now, 10);
}

TEST(Pace, ASecondOfNothingIsPolledAndDrawnOnlyIfThereIsNews) {
  FakeHost host;
  host.until_poll = 0.25;
  host.close_at = 5;
  Pace pace(&host, kDataSeconds);
  pace.Wait();
  EXPECT_TRUE(host.closing);
  host.closing = false;
  host.close_at = kNever;
  host.polled_is_new = true;
  pace.Wait();
  EXPECT_DOUBLE_EQ(host.now, 5.25);
}

TEST(Pace, ClosingWaitsForNothing) {
  FakeHost host;
  Pace pace(&host, kDataSeconds);
  Frame(&host, &pace, kSlowFrame, true);
  host.close_at = host.now;
  const double end = host.now;
  pace.Wait();
  EXPECT_TRUE(host.closing);
  EXPECT_EQ(host.now, end);
}

}  // namespace
}  // namespace shardscope::shell
