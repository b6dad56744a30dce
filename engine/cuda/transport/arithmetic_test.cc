// The decisions of the kernels, on the CPU: a wire behaves as transport::Link, and no wait is
// without end.
#include "engine/cuda/transport/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/transport/link.h"

namespace shardscope::cuda {
namespace {

TEST(ReserveWindow, IsTheCpusLink) {
  std::mt19937_64 random(3);
  transport::Link link(4, 2e9, 5000);
  LinkWires wires;
  uint64_t arrival_ns = 0;
  for (int i = 0; i < 1000; ++i) {
    arrival_ns += random() % 20'000;
    const auto wire_bytes = static_cast<int64_t>(random() % 40'000);
    const auto transfer_ns =
        static_cast<uint64_t>(std::ceil(static_cast<double>(wire_bytes) / 2e9 * 1e9));
    const auto ranks = static_cast<uint32_t>(1 + random() % 15);
    std::vector<int> members;
    for (int rank = 0; rank < 4; ++rank) {
      if ((ranks >> rank & 1U) != 0) members.push_back(rank);
    }
    const LinkWindow window = ReserveWindow(arrival_ns, {ranks, 5000, transfer_ns}, &wires);
    ASSERT_EQ(window.end_ns, static_cast<uint64_t>(link.Reserve(
                                 members, static_cast<int64_t>(arrival_ns), wire_bytes)));
    ASSERT_EQ(window.end_ns - window.start_ns, transfer_ns);
  }
}

TEST(DueAt, FillsTheWindowEvenlyAndEndsExactly) {
  const LinkWindow window{1000, 4001};
  EXPECT_EQ(DueAt(window, 0), 1000U);
  EXPECT_EQ(DueAt(window, 1), 4001U);
  uint64_t last_ns = 0;
  for (int i = 0; i <= 100; ++i) {
    const uint64_t due_ns = DueAt(window, i / 100.0);
    EXPECT_GE(due_ns, last_ns);
    EXPECT_NEAR(static_cast<double>(due_ns), 1000 + 30.01 * i, 1.0);
    last_ns = due_ns;
  }
}

// A clock of the GPU that advances by what a kernel sleeps, in steps as coarse as real ones.
TEST(Spin, EndsAtTheDueTime) {
  for (const uint64_t clock_step_ns : {1U, 32U, 1024U}) {
    uint64_t now_ns = 10'000;
    Spin spin{now_ns, 1'000'000};
    uint32_t sleep_ns = 0;
    uint64_t slept_ns = 0;
    const auto clock = [&] { return now_ns / clock_step_ns * clock_step_ns; };
    spin.since_ns = clock();
    while (spin.WaitsOn(clock(), 90'000, &sleep_ns)) {
      ASSERT_GT(sleep_ns, 0U);
      ASSERT_LE(sleep_ns, Spin::kMaxSleepNs);
      now_ns += sleep_ns;
      slept_ns += sleep_ns;
    }
    EXPECT_GE(clock(), 90'000U);
    EXPECT_LE(slept_ns, 80'000U + 2 * clock_step_ns);
  }
}

TEST(Spin, GivesUpAtItsLimit) {
  uint64_t now_ns = 500;
  Spin spin{now_ns, 30'000};
  uint32_t sleep_ns = 0;
  while (spin.WaitsOn(now_ns, ~uint64_t{0}, &sleep_ns)) now_ns += sleep_ns;
  EXPECT_GT(now_ns, 30'500U);
  EXPECT_LE(now_ns, 30'500U + Spin::kMaxSleepNs);
}

TEST(Spin, GivesUpWhenTheClockStandsStill) {
  Spin spin{500, 30'000};
  uint32_t sleep_ns = 0;
  uint64_t num_turns = 0;
  while (spin.WaitsOn(500, 10'000, &sleep_ns)) ASSERT_LT(++num_turns, 10'000U);
  EXPECT_EQ(num_turns, 30'000 / Spin::kMinTurnNs);
}

TEST(Spin, AClockThatJumpsBackEndsTheWait) {
  Spin spin{5000, 30'000};
  uint32_t sleep_ns = 0;
  EXPECT_FALSE(spin.WaitsOn(4000, 10'000, &sleep_ns));
}

}  // namespace
}  // namespace shardscope::cuda
