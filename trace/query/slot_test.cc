#include "trace/query/slot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace shardscope::query {
namespace {

void WaitFor(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Slot, ShowsTheOldAnswerUntilTheNewOneIsThere) {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> calls = 0;
  Slot<int, int> slot([&](const int& key) {
    ++calls;
    if (key == 2) open.wait();
    return key * 10;
  });
  EXPECT_EQ(slot.Poll(1), nullptr);
  WaitFor([&] { return slot.UpToDate(); });
  ASSERT_NE(slot.Poll(1), nullptr);
  EXPECT_EQ(*slot.Poll(1), 10);

  EXPECT_EQ(*slot.Poll(2), 10);  // the worker is held up
  EXPECT_FALSE(slot.UpToDate());
  WaitFor([&] { return calls == 2; });
  EXPECT_EQ(*slot.Poll(3), 10);
  EXPECT_EQ(*slot.Poll(4), 10);
  gate.set_value();
  WaitFor([&] { return slot.UpToDate(); });
  EXPECT_EQ(*slot.Poll(4), 40);
  EXPECT_EQ(calls, 3);  // 1, 2 and 4: nobody waits for 3 any more
}

TEST(Slot, TellsThatAnAnswerCame) {
  std::atomic<int> told = 0;
  Slot<int, int> slot([](const int& key) { return key; }, [&told] { ++told; });
  slot.Poll(7);
  WaitFor([&] { return told == 1; });
  EXPECT_EQ(*slot.Poll(7), 7);
}

}  // namespace
}  // namespace shardscope::query
