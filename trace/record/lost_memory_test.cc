#include "trace/record/lost_memory.h"

#include <gtest/gtest.h>

namespace shardscope::record {
namespace {

schema::MemoryEventRow LostEvent(int64_t time_ns, int64_t bytes, int64_t rank = 0) {
  schema::MemoryEventRow row;
  row.rank = rank;
  row.issued_ns = time_ns - 1;
  row.executed_ns = time_ns;
  row.bytes = bytes;
  return row;
}

TEST(LostMemory, TheLeastIsAtTheFirstTimeAndTheRestAtTheLast) {
  LostMemory lost;
  lost.Follow(LostEvent(10, -40));
  lost.Follow(LostEvent(20, 100));
  lost.EndBatch(false);
  lost.Follow(LostEvent(30, -30));  // of the next batch, which is lost too
  lost.EndBatch(false);
  const std::vector<schema::MemoryEventRow> rows = lost.Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].bytes, -40);
  EXPECT_EQ(rows[0].executed_ns, 10);
  EXPECT_EQ(rows[0].issued_ns, 9);
  EXPECT_EQ(rows[1].bytes, 70);
  EXPECT_EQ(rows[1].executed_ns, 30);
  EXPECT_EQ(rows[1].issued_ns, 29);
}

TEST(LostMemory, WhatWasTakenAndGivenBackInTheHoleNeedsNoRow) {
  LostMemory lost;
  lost.Follow(LostEvent(10, 40));
  lost.Follow(LostEvent(20, -40));
  lost.Follow(LostEvent(15, 7, 1));
  lost.EndBatch(false);
  const std::vector<schema::MemoryEventRow> rows = lost.Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].rank, 1);
  EXPECT_EQ(rows[0].bytes, 7);
}

TEST(LostMemory, WhatARingHadNoRoomForIsAddedBehindTheBatches) {
  LostMemory lost;
  lost.Follow(LostEvent(10, 40));
  lost.EndBatch(false);
  LostInRing ring;
  ring.Add(LostEvent(20, -60));
  ring.Add(LostEvent(30, 25));
  lost.Add(ring.Take());
  lost.Add(ring.Take());  // nothing since
  const std::vector<schema::MemoryEventRow> rows = lost.Rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].bytes, -20);
  EXPECT_EQ(rows[0].executed_ns, 10);
  EXPECT_EQ(rows[1].bytes, 25);
  EXPECT_EQ(rows[1].executed_ns, 30);
}

TEST(LostMemory, ACommittedBatchHasThemAll) {
  LostMemory lost;
  lost.Follow(LostEvent(10, 40));
  lost.EndBatch(true);
  EXPECT_TRUE(lost.Rows().empty());
  lost.Follow(LostEvent(20, -40));
  lost.EndBatch(false);
  EXPECT_EQ(lost.Rows().size(), 1u);
  lost.Follow(LostEvent(30, 5));
  lost.EndBatch(true);
  EXPECT_TRUE(lost.Rows().empty());
}

}  // namespace
}  // namespace shardscope::record
