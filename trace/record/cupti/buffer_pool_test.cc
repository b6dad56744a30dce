#include "trace/record/cupti/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace shardscope::cupti {
namespace {

TEST(BufferPool, GivesZeroesWhateverWasWrittenBeyondTheValidPart) {
  BufferPool pool(256, 1);
  pool.Refill(1);
  uint8_t* buffer = pool.Take();
  ASSERT_NE(buffer, nullptr);
  std::memset(buffer, 0xFF, 256);
  pool.GiveBack(buffer, 8);
  const std::vector<BufferPool::Full> full = pool.TakeFull();
  ASSERT_EQ(full.size(), 1u);
  EXPECT_EQ(full[0].valid_bytes, 8u);
  pool.Recycle(full[0]);
  uint8_t* again = pool.Take();
  ASSERT_EQ(again, buffer);
  EXPECT_TRUE(std::all_of(again, again + 256, [](uint8_t byte) { return byte == 0; }));
}

TEST(BufferPool, MoreValidBytesThanThereAreAreNotBelieved) {
  BufferPool pool(64, 1);
  pool.Refill(1);
  pool.GiveBack(pool.Take(), SIZE_MAX);
  const std::vector<BufferPool::Full> full = pool.TakeFull();
  ASSERT_EQ(full.size(), 1u);
  EXPECT_EQ(full[0].valid_bytes, 64u);
  pool.Recycle(full[0]);
  EXPECT_NE(pool.Take(), nullptr);
}

}  // namespace
}  // namespace shardscope::cupti
