#include "trace/record/spsc_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace shardscope::record {
namespace {

TEST(SpscRing, RefusesWhenFullAndGoesOnAfterPop) {
  SpscRing<int> ring(3);
  ASSERT_EQ(ring.capacity(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.TryPush(i));
  EXPECT_FALSE(ring.TryPush(4));
  EXPECT_EQ(ring.NumReadable(), 4u);
  EXPECT_EQ(ring.Peek(0), 0);
  EXPECT_EQ(ring.Peek(3), 3);
  ring.Pop(2);
  EXPECT_TRUE(ring.TryPush(5));
  EXPECT_EQ(ring.Peek(0), 2);
  EXPECT_EQ(ring.NumReadable(), 3u);
}

TEST(SpscRing, NothingIsLostOrMixedUpUnderContention) {
  struct Record {
    uint64_t number;
    uint64_t check[7];  // wide, so that a torn record would show
  };
  SpscRing<Record> ring(64);
  constexpr uint64_t kRecords = 300'000;
  uint64_t refused = 0;
  std::thread producer([&] {
    for (uint64_t i = 0; i < kRecords; ++i) {
      Record record{i, {}};
      for (uint64_t& check : record.check) check = i * 31;
      while (!ring.TryPush(record)) {
        ++refused;
        std::this_thread::yield();
      }
    }
  });
  uint64_t next = 0;
  bool good = true;
  while (next < kRecords) {
    const size_t readable = ring.NumReadable();
    for (size_t i = 0; i < readable; ++i) {
      const Record& record = ring.Peek(i);
      good = good && record.number == next;
      for (const uint64_t check : record.check) good = good && check == next * 31;
      ++next;
    }
    ring.Pop(readable);
    if (readable == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_TRUE(good);
  EXPECT_EQ(ring.NumReadable(), 0u);
  EXPECT_GT(refused, 0u);  // the ring was full at times
}

}  // namespace
}  // namespace shardscope::record
