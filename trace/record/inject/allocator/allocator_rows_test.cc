// A caching allocator that is played to AllocatorRows: whatever it does, the rows of a device add
// up to its own sum.
#include "trace/record/inject/allocator/allocator_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "trace/record/keeping_recorder_test_util.h"

namespace shardscope::inject {
namespace {

struct KeepingRecorder final : record::KeepingRecorder {
  const std::vector<schema::MemoryEventRow>& memory = Hot<schema::MemoryEventRow>();
  const std::vector<schema::AllocationRow>& allocations = Hot<schema::AllocationRow>();
  const std::vector<schema::CounterRow>& counters = Hot<schema::CounterRow>();
  const std::vector<schema::MarkerRow>& markers = Rare<schema::MarkerRow>();
};

class AllocatorRowsTest : public testing::Test, private AllocatorTarget {
 protected:
  record::Recorder& recorder() override { return recorder_; }
  int64_t rank() const override { return 3; }
  schema::StringId Name(std::string_view text) override {
    names_.emplace_back(text);
    return schema::StringId(static_cast<int64_t>(names_.size()) - 1);
  }
  schema::TrackId ThreadTrack() override { return schema::TrackId(11); }
  schema::TrackId CounterTrack() override { return schema::TrackId(12); }

  // An event now, told as PyTorch tells it: before it has changed the allocator's sums.
  void Tell(ShardscopeAllocatorAction action, uint64_t address, int64_t bytes,
            const char* category = nullptr) {
    ShardscopeAllocatorEvent event = {};
    event.time_ns = ++time_ns_;
    event.action = action;
    event.device = device_;
    event.address = address;
    event.stream = 7;
    event.bytes = bytes;
    event.active_bytes = active_bytes_;
    event.reserved_bytes = reserved_bytes_;
    if (category != nullptr) {
      event.range = "FSDP::all_gather (layers.0)";
      event.unit = "layers.0";
      event.phase = "forward";
      event.category = category;
    }
    rows_.Add(event);
  }
  void Allocate(uint64_t address, int64_t bytes, int64_t block_bytes,
                const char* category = nullptr) {
    Tell(kShardscopeAlloc, address, bytes, category);
    blocks_[address] = block_bytes;
    active_bytes_ += block_bytes;
  }
  void Request(uint64_t address) { Tell(kShardscopeFreeRequested, address, 0); }
  void Complete(uint64_t address) {
    Tell(kShardscopeFreeCompleted, address, 0);
    active_bytes_ -= blocks_.at(address);
    blocks_.erase(address);
  }
  void Free(uint64_t address) {
    Request(address);
    Complete(address);
  }

  int64_t LiveBytes() const {
    int64_t sum = 0;
    for (const schema::MemoryEventRow& row : recorder_.memory) sum += row.bytes;
    return sum;
  }

  KeepingRecorder recorder_;
  std::vector<std::string> names_;
  std::map<uint64_t, int64_t> blocks_;
  int64_t time_ns_ = 100;
  int64_t active_bytes_ = 0;
  int64_t reserved_bytes_ = 0;
  int32_t device_ = 0;
  AllocatorRows rows_{this};
};

TEST_F(AllocatorRowsTest, ABlockIsWhatTheAllocatorGaveAndAsLongAsAStreamUsesIt) {
  Tell(kShardscopeAttached, 0, 0);
  Allocate(0x1000, 1000, 1024, "communication_buffer");  // at 102
  EXPECT_TRUE(recorder_.memory.empty());                 // its size is not known yet
  Request(0x1000);                                       // at 103
  Allocate(0x9000, 1, 512);
  Complete(0x1000);  // at 105
  ASSERT_EQ(recorder_.memory.size(), 3u);
  const schema::MemoryEventRow& given = recorder_.memory[0];
  EXPECT_EQ(given.bytes, 1024);
  EXPECT_EQ(given.issued_ns, 102);
  EXPECT_EQ(given.executed_ns, 102);
  EXPECT_EQ(given.category, "communication_buffer");
  EXPECT_EQ(given.unit, "layers.0");
  EXPECT_EQ(given.device, "GPU 0");
  EXPECT_EQ(given.rank, 3);
  EXPECT_EQ(recorder_.memory[1].bytes, 512);
  EXPECT_EQ(recorder_.memory[1].category, "unattributed");
  const schema::MemoryEventRow& back = recorder_.memory[2];
  EXPECT_EQ(back.bytes, -1024);
  EXPECT_EQ(back.issued_ns, 103);
  EXPECT_EQ(back.executed_ns, 105);
  EXPECT_EQ(back.category, "communication_buffer");
  ASSERT_EQ(recorder_.allocations.size(), 1u);
  const schema::AllocationRow& row = recorder_.allocations[0];
  EXPECT_EQ(std::pair(row.requested_bytes, row.block_bytes),
            std::pair(int64_t{1000}, int64_t{1024}));
  EXPECT_EQ(row.allocated_ns, 102);
  EXPECT_EQ(row.free_requested_ns, 103);
  EXPECT_EQ(row.free_completed_ns, 105);
  EXPECT_EQ(row.state, "freed");
  EXPECT_EQ(row.stream, 7);
  EXPECT_EQ(row.address, 0x1000);
  EXPECT_EQ(row.track, schema::TrackId(11));
  EXPECT_EQ(row.phase, "forward");
  EXPECT_EQ(names_.at(static_cast<size_t>(row.range_string.value())),
            "FSDP::all_gather (layers.0)");
}

TEST_F(AllocatorRowsTest, WhatIsHeldAtTheEndHasRowsToo) {
  Allocate(0x1000, 100, 512);
  Allocate(0x2000, 100, 512);
  Allocate(0x3000, 100, 512);
  Request(0x2000);
  Free(0x1000);
  Allocate(0x4000, 100, 512);  // no event follows it
  rows_.Finish(1000);
  Free(0x3000);  // too late
  std::map<int64_t, std::string> states;
  for (const schema::AllocationRow& row : recorder_.allocations) {
    states[row.address] = row.state.str();
    EXPECT_EQ(row.state == "freed", row.free_completed_ns < 1000);
  }
  EXPECT_THAT(states, testing::ElementsAre(std::pair(0x1000, "freed"), std::pair(0x2000, "in use"),
                                           std::pair(0x3000, "held"), std::pair(0x4000, "held")));
  EXPECT_EQ(LiveBytes(), 512 + 512 + 100);
  EXPECT_EQ(rows_.unexplained(), 0);
}

TEST_F(AllocatorRowsTest, BlocksFromBeforeTheEventsBegan) {
  active_bytes_ = 4096;
  blocks_[0x100] = 3072;
  blocks_[0x200] = 1024;
  Tell(kShardscopeAttached, 0, 0);
  EXPECT_EQ(LiveBytes(), 4096);
  Free(0x100);
  Allocate(0x300, 10, 512);
  EXPECT_EQ(LiveBytes(), 1024);
  Free(0x300);
  EXPECT_EQ(LiveBytes(), 1024);
  EXPECT_EQ(rows_.unexplained(), 0);
  active_bytes_ += 2048;  // by itself
  Free(0x200);
  EXPECT_EQ(LiveBytes(), 1024 + 2048);
  EXPECT_EQ(rows_.unexplained(), 1);
}

TEST_F(AllocatorRowsTest, SegmentsAreACounter) {
  Tell(kShardscopeSegmentGained, 0x1000, 2 << 20);
  reserved_bytes_ = 2 << 20;
  Allocate(0x1000, 10, 512);
  device_ = 1;
  active_bytes_ = 0;
  reserved_bytes_ = 0;
  Tell(kShardscopeSegmentGained, 0x1000, 1 << 20);
  device_ = 0;
  reserved_bytes_ = 3 << 20;  // one more without an event of its own
  active_bytes_ = 512;
  Free(0x1000);
  Tell(kShardscopeSegmentGiven, 0x1000, 3 << 20);
  std::vector<double> values;
  for (const schema::CounterRow& row : recorder_.counters) {
    EXPECT_EQ(names_.at(static_cast<size_t>(row.name_string.value())), "reserved_bytes");
    EXPECT_EQ(row.track, schema::TrackId(12));
    values.push_back(row.value);
  }
  EXPECT_THAT(values, testing::ElementsAre(2 << 20, 3 << 20, 4 << 20, 1 << 20));
}

TEST_F(AllocatorRowsTest, OutOfMemoryIsAMarker) {
  active_bytes_ = 5'000'000;
  reserved_bytes_ = 6'000'000;
  Tell(kShardscopeAttached, 0, 0);
  Tell(kShardscopeOutOfMemory, /*free*/ 1'000'000, 2'000'000, "communication_buffer");
  ASSERT_EQ(recorder_.markers.size(), 1u);
  EXPECT_EQ(recorder_.markers[0].kind, "error");
  EXPECT_EQ(recorder_.markers[0].new_value,
            "GPU 0 is out of memory: 2.00 MB more were asked for in FSDP::all_gather (layers.0), "
            "1.00 MB are free; PyTorch holds 6.00 MB, of which 5.00 MB are in use");
}

// Frees that wait, blocks larger than asked for, addresses that come again.
TEST_F(AllocatorRowsTest, RowsAddUpToTheAllocatorWhateverItDoes) {
  std::mt19937 random(5);
  std::vector<uint64_t> live;
  std::vector<uint64_t> waiting;
  for (int step = 0; step < 5000; ++step) {
    const auto pick = [&](std::vector<uint64_t>* from) {
      const size_t at = random() % from->size();
      const uint64_t address = (*from)[at];
      from->erase(from->begin() + static_cast<ptrdiff_t>(at));
      return address;
    };
    const unsigned what = random() % 4;
    if (what < 2) {
      const uint64_t address = 0x1000 * (1 + random() % 500);
      if (blocks_.contains(address)) continue;
      const auto bytes = static_cast<int64_t>(1 + random() % 5000);
      const int64_t block = (bytes + 511) / 512 * 512 + (random() % 5 == 0 ? 4096 : 0);
      Allocate(address, bytes, block, random() % 2 == 0 ? "activation" : nullptr);
      live.push_back(address);
    } else if (what == 2 && !live.empty()) {
      const uint64_t address = pick(&live);
      Request(address);
      waiting.push_back(address);
    } else if (what == 3 && !waiting.empty()) {
      Complete(pick(&waiting));
    }
    const int64_t before = active_bytes_;
    Tell(kShardscopeSegmentGained, 1, 0);
    ASSERT_EQ(LiveBytes(), before) << step;
  }
  EXPECT_EQ(rows_.unexplained(), 0);
  EXPECT_GT(recorder_.allocations.size(), 500u);
}

}  // namespace
}  // namespace shardscope::inject
