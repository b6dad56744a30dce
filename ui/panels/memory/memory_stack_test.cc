#include "ui/panels/memory/memory_stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::panels {
namespace {

using analysis::MemoryTimeline;
using query::MemoryCategory;

// What is live from a moment on.
struct Live {
  int64_t time_ns;
  int64_t shard;
  int64_t activation;
};

MemoryStack StackOf(const std::vector<Live>& moments, const timeline::Axis& axis, int64_t end_ns) {
  analysis::TestSnapshot rows(1);
  Live before = {};
  for (const Live& live : moments) {
    if (live.shard != before.shard) {
      rows.Memory(0, MemoryCategory::kParameterShard, live.time_ns, live.shard - before.shard);
    }
    if (live.activation != before.activation) {
      rows.Memory(0, MemoryCategory::kActivation, live.time_ns,
                  live.activation - before.activation);
    }
    before = live;
  }
  MemoryTimeline memory(0, analysis::Ledger::kExecution);
  memory.Advance(*rows.Build());
  return MakeStack(memory, axis, end_ns);
}

TEST(MemoryStackTest, UnchangedCategoryIsOneBox) {
  const timeline::Axis axis({0, 100}, 10, 100);
  const MemoryStack stack = StackOf({{0, 5, 0}, {20, 5, 7}, {60, 5, 2}}, axis, 100);
  ASSERT_EQ(stack.boxes.size(), 3U);
  EXPECT_EQ(stack.max_bytes, 12);
  int64_t shard_width = 0;
  for (const StackBox& box : stack.boxes) {
    if (box.category == MemoryCategory::kParameterShard) {
      shard_width += static_cast<int64_t>(box.x1 - box.x0);
      EXPECT_EQ(box.low_bytes, 0);
      EXPECT_EQ(box.high_bytes, 5);
    } else {
      EXPECT_EQ(box.low_bytes, 5);
    }
  }
  EXPECT_EQ(shard_width, 100);
}

TEST(MemoryStackTest, ShortPeakInsideOneColumnIsKept) {
  const timeline::Axis axis({0, 100'000}, 0, 100);  // 1000 ns a pixel
  const MemoryStack stack = StackOf({{0, 1, 0}, {50'100, 1, 90}, {50'200, 1, 0}}, axis, 100'000);
  EXPECT_EQ(stack.max_bytes, 91);
  int peaks = 0;
  for (const StackBox& box : stack.boxes) {
    if (box.category != MemoryCategory::kActivation) continue;
    ++peaks;
    EXPECT_FLOAT_EQ(box.x0, 50);
    EXPECT_FLOAT_EQ(box.x1, 51);
  }
  EXPECT_EQ(peaks, 1);
}

TEST(MemoryStackTest, NothingAfterTheEndAndNothingBeforeTheFirstPoint) {
  const timeline::Axis axis({0, 100}, 0, 100);
  const MemoryStack stack = StackOf({{30, 5, 0}}, axis, 60);
  ASSERT_EQ(stack.boxes.size(), 1U);
  EXPECT_FLOAT_EQ(stack.boxes[0].x0, 30);
  EXPECT_FLOAT_EQ(stack.boxes[0].x1, 60);
  EXPECT_TRUE(StackOf({}, axis, 100).boxes.empty());
}

// Peaks of dense points are right but for a quarter of a column; where none are, what is live
// stays.
TEST(MemoryStackTest, ColumnsOfManyPointsShowTheirPeaks) {
  constexpr int64_t kColumns = 40;
  constexpr int64_t kLength = 2000;  // of a column
  constexpr int64_t kIdle = 7;
  std::mt19937 random(8);
  std::vector<Live> moments;
  for (int64_t column = 0; column < kColumns; ++column) {
    if (column / 10 == 1) continue;
    const int64_t apart = column < 30 ? 1 : 100;
    for (int64_t at = 0; at < kLength; at += apart) {
      moments.push_back({column * kLength + at, 1, kIdle + static_cast<int64_t>(random() % 1000)});
    }
    if (column == 9) moments.back().activation = kIdle;
  }
  const timeline::Axis axis({0, kColumns * kLength}, 0, kColumns);
  const MemoryStack stack = StackOf(moments, axis, kColumns * kLength);
  const auto peak_of = [&](int64_t from_ns, int64_t until_ns) {
    int64_t peak = 0;
    for (const Live& live : moments) {
      if (live.time_ns >= from_ns && live.time_ns < until_ns)
        peak = std::max(peak, live.activation);
    }
    return peak + 1;
  };
  int64_t seen = 0;
  for (const StackBox& box : stack.boxes) {
    if (box.category != MemoryCategory::kActivation) continue;
    seen += std::llround(box.x1 - box.x0);
    const int64_t from_ns = std::llround(box.x0) * kLength;
    const int64_t until_ns = std::llround(box.x1) * kLength;
    if (box.x0 == 10) {
      EXPECT_GE(box.x1, 19);
      EXPECT_EQ(box.high_bytes, kIdle + 1);
      continue;
    }
    EXPECT_GE(box.high_bytes, peak_of(from_ns + kLength / 4, until_ns));
    EXPECT_LE(box.high_bytes, peak_of(from_ns, until_ns + kLength / 4));
  }
  EXPECT_EQ(seen, kColumns);
}

// The heights drawn at any column add up to the total of the largest point in it.
TEST(MemoryStackTest, LessonStacksUpToItsPeaks) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 4, 2);
  MemoryTimeline memory(0, analysis::Ledger::kExecution);
  memory.Advance(*snapshot);
  const timeline::Axis axis({snapshot->start_ns, snapshot->end_ns}, 0, 800);
  const MemoryStack stack = MakeStack(memory, axis, snapshot->end_ns);
  EXPECT_EQ(stack.max_bytes, analysis::MemoryPeaks(*snapshot).front().peak_bytes);
  EXPECT_LT(stack.boxes.size(), 800U * query::kNumMemoryCategories);
  for (const StackBox& box : stack.boxes) EXPECT_LT(box.low_bytes, box.high_bytes);
}

}  // namespace
}  // namespace shardscope::panels
