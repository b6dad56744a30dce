#include "ui/shell/run/progress_wake.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace shardscope::shell {
namespace {

constexpr int64_t kStartNs = int64_t{1} << 40;

TEST(ProgressWake, WakesAtOnceAndThenNotBeforeItsTimeIsOver) {
  int wakes = 0;
  ProgressWake wake([&wakes] { ++wakes; });
  wake.Tell(kStartNs);
  EXPECT_EQ(wakes, 1);
  wake.Tell(kStartNs);
  wake.Tell(kStartNs + ProgressWake::kEveryNs - 1);
  EXPECT_EQ(wakes, 1);
  wake.Tell(kStartNs + ProgressWake::kEveryNs);
  EXPECT_EQ(wakes, 2);
  wake.Tell(kStartNs + ProgressWake::kEveryNs + 1);  // counted from the last one
  EXPECT_EQ(wakes, 2);
}

TEST(ProgressWake, OfThreadsThatTellAtOnceOneWakes) {
  std::atomic<int> wakes = 0;
  ProgressWake wake([&wakes] { ++wakes; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&wake] {
      for (int tell = 0; tell < 1000; ++tell) wake.Tell(kStartNs);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wakes, 1);
}

TEST(ProgressWake, MayHaveNoOneToWake) { ProgressWake({}).Tell(); }

}  // namespace
}  // namespace shardscope::shell
