#include "trace/import/memory_snapshot/history.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "trace/base/words.h"

namespace shardscope::imports {
namespace {

using Action = AllocatorAction;
using State = words::AllocationState;

constexpr int64_t kFirstNs = 1'000;

class DeviceHistoryTest : public ::testing::Test {
 protected:
  DeviceHistoryTest()
      : document_(""),
        unknown_(&recording_.not_understood),
        annotations_(document_, nullptr, &unknown_, &recording_),
        history_(3, 0, kFirstNs, &annotations_, &recording_) {}

  void Take(Action action, int64_t time_ns, int64_t address, int64_t bytes) {
    history_.Take({.action = action, .time_ns = time_ns, .address = address, .bytes = bytes});
  }
  const std::vector<RecordedAllocation>& blocks() const { return recording_.allocator.blocks; }
  int64_t Live() const {
    int64_t bytes = 0;
    for (const RecordedMemory& memory : recording_.memory) bytes += memory.bytes;
    return bytes;
  }

  Document document_;
  Recording recording_;
  UnknownFields unknown_;
  Annotations annotations_;
  DeviceHistory history_;
};

TEST_F(DeviceHistoryTest, ABlockIsHeldUntilItsFreeIsCompleted) {
  Take(Action::kAlloc, 2'000, 7, 1'000);
  Take(Action::kFreeRequested, 3'000, 7, 1'000);
  Take(Action::kFreeCompleted, 5'000, 7, 1'000);
  history_.Finish(9'000, 0, true);
  ASSERT_EQ(blocks().size(), 1u);
  const RecordedAllocation& block = blocks()[0];
  EXPECT_EQ(block.allocated_ns, 2'000);
  EXPECT_EQ(block.free_requested_ns, 3'000);
  EXPECT_EQ(block.free_completed_ns, 5'000);
  EXPECT_EQ(block.requested_bytes, 1'000);
  EXPECT_EQ(block.block_bytes, 1'024);
  EXPECT_EQ(block.state, State::kFreed);
  ASSERT_EQ(recording_.memory.size(), 2u);
  EXPECT_EQ(recording_.memory[1].time_ns, 3'000);
  EXPECT_EQ(recording_.memory[1].held_ns, 2'000);
  EXPECT_EQ(Live(), 0);
  EXPECT_TRUE(recording_.not_understood.empty());
}

TEST_F(DeviceHistoryTest, WhatIsFreedWithoutAnAllocationWasThereBefore) {
  Take(Action::kFreeRequested, 2'000, 7, 512);
  Take(Action::kFreeCompleted, 2'000, 7, 512);
  Take(Action::kFreeCompleted, 4'000, 8, 512);  // was asked for before the first event
  history_.Finish(9'000, 0, true);
  ASSERT_EQ(blocks().size(), 2u);
  EXPECT_EQ(blocks()[0].allocated_ns, kFirstNs);
  EXPECT_EQ(blocks()[0].free_requested_ns, 2'000);
  EXPECT_EQ(blocks()[1].free_requested_ns, kFirstNs);
  EXPECT_EQ(blocks()[1].free_completed_ns, 4'000);
  EXPECT_EQ(Live(), 0);
}

TEST_F(DeviceHistoryTest, TheEndIsWhatTheSegmentsSay) {
  Take(Action::kAlloc, 2'000, 7, 1'000);
  Take(Action::kAlloc, 2'500, 900, 100);
  Take(Action::kFreeRequested, 3'000, 900, 100);
  history_.Hold({.address = 7, .bytes = 4'096, .requested_bytes = 1'000});
  history_.Hold({.address = 900, .bytes = 512, .requested_bytes = 100, .is_pending_free = true});
  history_.Hold({.address = 5'000, .bytes = 2'048});  // from before
  history_.Hold({.address = 5'000, .bytes = 2'048});  // twice: said, and not counted
  history_.Finish(9'000, 100'000, true);
  ASSERT_EQ(blocks().size(), 3u);
  EXPECT_EQ(Live(), 4'096 + 512 + 2'048);
  EXPECT_EQ(blocks()[0].address, 5'000);
  EXPECT_EQ(blocks()[0].allocated_ns, kFirstNs);
  EXPECT_EQ(blocks()[1].state, State::kHeld);
  EXPECT_EQ(blocks()[1].free_completed_ns, 9'000);
  EXPECT_EQ(blocks()[2].state, State::kInUse);
  EXPECT_EQ(blocks()[2].free_requested_ns, 3'000);
  EXPECT_EQ(recording_.not_understood.size(), 1u);
}

TEST_F(DeviceHistoryTest, ReservedMemoryIsThatOfTheSegmentsInTheEnd) {
  Take(Action::kSegmentGained, 2'000, 1 << 20, 20'000);
  Take(Action::kSegmentGiven, 3'000, 1 << 21, 5'000);  // was there before
  history_.Finish(9'000, 70'000, true);
  int64_t bytes = 0;
  for (const RecordedSegment& segment : recording_.allocator.segments) bytes += segment.bytes;
  EXPECT_EQ(bytes, 70'000);
  EXPECT_EQ(recording_.allocator.segments.back().time_ns, kFirstNs);
  EXPECT_EQ(recording_.allocator.segments.back().bytes, 55'000);
}

TEST_F(DeviceHistoryTest, AbsurdEventsAreSaidAndDoNoHarm) {
  Take(Action::kAlloc, 5'000, 7, INT64_MAX);
  Take(Action::kAlloc, 4'000, 7, INT64_MIN);  // older, and at the same place
  Take(Action::kFreeCompleted, INT64_MAX / 4, INT64_MIN, -1);
  for (int64_t at = 0; at < 100; ++at) Take(Action::kSegmentGained, INT64_MAX / 4, at, INT64_MAX);
  history_.Hold({.address = INT64_MAX, .bytes = INT64_MAX, .requested_bytes = INT64_MAX});
  history_.Finish(INT64_MAX / 4, INT64_MAX, true);
  EXPECT_EQ(blocks().size(), 4u);
  for (const RecordedAllocation& block : blocks()) {
    EXPECT_LE(block.allocated_ns, block.free_requested_ns);
    EXPECT_LE(block.free_requested_ns, block.free_completed_ns);
    EXPECT_GE(block.block_bytes, block.requested_bytes);
  }
  EXPECT_EQ(recording_.not_understood.size(), 4u);
}

TEST_F(DeviceHistoryTest, OutOfMemoryIsAnErrorWithItsPlace) {
  const Names::Index stack = recording_.names.Add("forward (train.py:7)\nmain (train.py:9)");
  Take(Action::kAlloc, 2'000, 7, 1'000'000);
  history_.Take({.action = Action::kOutOfMemory,
                 .time_ns = 3'000,
                 .bytes = 64'000'000,
                 .free_bytes = 2'000'000,
                 .stack = stack});
  ASSERT_EQ(recording_.markers.size(), 1u);
  EXPECT_EQ(words::Name(recording_.markers[0].kind), "error");
  EXPECT_EQ(recording_.markers[0].time_ns, 3'000);
  EXPECT_EQ(recording_.markers[0].text,
            "GPU 3 is out of memory: 64.0 MB more were asked for, 2.00 MB are free; of the blocks "
            "that the snapshot knows 1.00 MB are in use; asked for by forward (train.py:7)");
}

}  // namespace
}  // namespace shardscope::imports
