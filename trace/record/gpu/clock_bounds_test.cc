// How far a GPU's clock can be off, from made-up work whose clock is off by a known amount.
#include "trace/record/gpu/clock_bounds.h"

#include <gtest/gtest.h>

#include "trace/base/time.h"

namespace shardscope::gpu {
namespace {

using cupti::Joined;
using cupti::kNoRecording;
using cupti::StreamId;
using cupti::Wait;
using cupti::WaitKind;
using cupti::Work;

constexpr StreamId kStream{1, 7};

// Asked for from call_ns on (the call takes 2 us), and at work from 5 us after that for 10 us; the
// GPU's clock is late by offset_ns, so that its times are too small.
Work WorkAt(int64_t call_ns, int64_t offset_ns, StreamId stream = kStream, uint32_t device = 0) {
  Work work;
  work.kernel.device = device;
  work.stream = stream;
  work.call_start_ns = call_ns;
  work.call_end_ns = call_ns + 2'000;
  work.start_ns = call_ns + 5'000 - offset_ns;
  work.end_ns = call_ns + 15'000 - offset_ns;
  return work;
}

Wait WaitAt(int64_t start_ns, int64_t end_ns, WaitKind kind = WaitKind::kStream,
            StreamId stream = kStream) {
  return {start_ns, end_ns, kind, stream, 0, kNoRecording};
}

// The true offset lies between the bounds, which are as wide as launch (5 us) and return (3 us)
// take.
TEST(ClockBounds, HoldTheOffset) {
  for (const int64_t offset_ns : {-20'000, 0, 20'000}) {
    ClockBounds clock;
    Joined joined;
    const int64_t call_ns = 3 * kNsPerSecond;
    joined.works = {WorkAt(call_ns, offset_ns)};
    joined.host_waits = {WaitAt(call_ns + 2'000, call_ns + 18'000)};
    clock.Add(joined);
    EXPECT_TRUE(clock.Take(false).empty());  // its second is not over
    const std::vector<ClockReading> readings = clock.Take(true);
    ASSERT_EQ(readings.size(), 1u);
    EXPECT_EQ(readings[0].low_ns, offset_ns - 5'000);
    EXPECT_EQ(readings[0].high_ns, offset_ns + 3'000);
    EXPECT_EQ(readings[0].time_ns, call_ns + 18'000);
    EXPECT_EQ(readings[0].works, 1);
    EXPECT_EQ(readings[0].waits, 1);
  }
}

TEST(ClockBounds, OnlyWorkThatWasAskedForBeforeTheWaitBoundsIt) {
  ClockBounds clock;
  Joined joined;
  const int64_t t = kNsPerSecond;
  joined.works = {WorkAt(t, 0), WorkAt(t + 100'000, 0), WorkAt(t, 0, {1, 8})};
  joined.works[2].end_ns = t + 900'000;                  // of another stream
  joined.host_waits = {WaitAt(t + 50'000, t + 60'000)};  // between the two
  clock.Add(joined);
  const std::vector<ClockReading> readings = clock.Take(true);
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].high_ns, 60'000 - 15'000);
  EXPECT_EQ(readings[0].waits, 1);
}

TEST(ClockBounds, AWaitForAContextIsOneForAllItsStreams) {
  ClockBounds clock;
  Joined joined;
  const int64_t t = kNsPerSecond;
  joined.works = {WorkAt(t, 0), WorkAt(t + 10'000, 0, {1, 8}), WorkAt(t + 20'000, 0, {2, 7}, 1)};
  joined.host_waits = {WaitAt(t + 30'000, t + 31'000, WaitKind::kContext, {1, 0})};
  clock.Add(joined);
  const std::vector<ClockReading> readings = clock.Take(true);
  ASSERT_EQ(readings.size(), 1u);  // GPU 1 was not waited for
  EXPECT_EQ(readings[0].device, 0u);
  EXPECT_EQ(readings[0].waits, 2);
  EXPECT_EQ(readings[0].high_ns, 31'000 - 25'000);
}

TEST(ClockBounds, WorkWithoutTimesOrCallSaysNothing) {
  ClockBounds clock;
  Joined joined;
  joined.works = {WorkAt(kNsPerSecond, 0), WorkAt(kNsPerSecond, 0)};
  joined.works[0].call_start_ns = joined.works[0].call_end_ns = 0;
  joined.works[1].start_ns = joined.works[1].end_ns = 0;
  joined.host_waits = {WaitAt(kNsPerSecond + 1, kNsPerSecond + 2)};
  clock.Add(joined);
  EXPECT_TRUE(clock.Take(true).empty());
}

TEST(ClockBounds, AnySplitGivesTheSameReadingsOneASecond) {
  std::vector<ClockReading> expected;
  for (const size_t split : {1u, 3u, 50u}) {
    ClockBounds clock;
    std::vector<ClockReading> readings;
    Joined joined;
    for (int64_t i = 0; i < 50; ++i) {
      const int64_t t = kNsPerSecond + i * 400'000'000;
      joined.works.push_back(WorkAt(t, i * 10));
      joined.host_waits.push_back(WaitAt(t + 2'000, t + 16'000 + i * 7));
      if (joined.works.size() < split) continue;
      clock.Add(std::exchange(joined, {}));
      for (const ClockReading& one : clock.Take(false)) readings.push_back(one);
    }
    clock.Add(joined);
    for (const ClockReading& one : clock.Take(true)) readings.push_back(one);
    ASSERT_EQ(readings.size(), 20u) << split;
    if (expected.empty()) expected = readings;
    for (size_t i = 0; i < readings.size(); ++i) {
      EXPECT_EQ(readings[i].time_ns, expected[i].time_ns) << split;
      EXPECT_EQ(readings[i].low_ns, expected[i].low_ns) << split;
      EXPECT_EQ(readings[i].high_ns, expected[i].high_ns) << split;
    }
  }
}

}  // namespace
}  // namespace shardscope::gpu
