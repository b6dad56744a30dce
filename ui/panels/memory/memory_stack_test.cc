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

// A column of a thousand points may take an eighth of a neighbour's, no more.
TEST(MemoryStackTest, ColumnsOfManyPointsShowTheirPeaks) {
  constexpr int kColumns = 20;
  constexpr int64_t kPoints = 1000;  // a column
  std::mt19937 random(8);
  std::vector<Live> moments;
  for (int64_t at = 0; at < kColumns * kPoints; ++at) {
    moments.push_back({at, 1, static_cast<int64_t>(random() % 100'000)});
  }
  const auto end_ns = static_cast<int64_t>(moments.size());
  const timeline::Axis axis({0, end_ns}, 0, kColumns);
  const MemoryStack stack = StackOf(moments, axis, end_ns);
  const auto peak_of = [&](int64_t from, int64_t until) {
    int64_t peak = 0;
    for (int64_t at = std::max<int64_t>(from, 0); at < std::min(until, end_ns); ++at) {
      peak = std::max(peak, moments[static_cast<size_t>(at)].activation + 1);
    }
    return peak;
  };
  int64_t seen = 0;
  for (const StackBox& box : stack.boxes) {
    if (box.category != MemoryCategory::kActivation) continue;
    const int64_t from = std::llround(box.x0) * kPoints;
    const int64_t until = std::llround(box.x1) * kPoints;
    EXPECT_GE(box.high_bytes, peak_of(from + kPoints / 8, until));
    EXPECT_LE(box.high_bytes, peak_of(from, until + kPoints / 8));
    seen += std::llround(box.x1 - box.x0);
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
