#include "ui/panels/memory/memory_stack.h"

#include <gtest/gtest.h>

#include <random>

#include "trace/analysis/lesson_snapshot.h"

namespace shardscope::panels {
namespace {

using analysis::MemoryTimeline;
using query::MemoryCategory;

MemoryTimeline::Point PointAt(int64_t time_ns, int64_t shard, int64_t activation) {
  MemoryTimeline::Point point;
  point.time_ns = time_ns;
  point.bytes[static_cast<size_t>(MemoryCategory::kParameterShard)] = shard;
  point.bytes[static_cast<size_t>(MemoryCategory::kActivation)] = activation;
  point.total = shard + activation;
  return point;
}

MemoryStack StackOf(const PeakIndex::Points& points, const timeline::Axis& axis, int64_t end_ns) {
  PeakIndex peaks;
  peaks.Update(points, 0);
  return MakeStack(points, peaks, axis, end_ns);
}

TEST(PeakIndexTest, LargestIsThatOfALinearScanAlsoAfterChanges) {
  PeakIndex::Points points;
  PeakIndex peaks;
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    const size_t keep = points.empty() ? 0 : random() % points.size();
    points.resize(keep);
    for (int more = 0; more < 90; ++more) {
      points.push_back(PointAt(static_cast<int64_t>(points.size()), 0, random() % 1000));
    }
    peaks.Update(points, keep);
    for (size_t at = 0; at <= points.size(); ++at) {
      EXPECT_EQ(peaks.FirstAt(points, static_cast<int64_t>(at)), at);
    }
    for (int query = 0; query < 50; ++query) {
      const size_t first = random() % points.size();
      const size_t last = first + 1 + random() % (points.size() - first);
      size_t expected = first;
      for (size_t at = first; at < last; ++at) {
        if (points[at].total > points[expected].total) expected = at;
      }
      EXPECT_EQ(points[peaks.Largest(points, first, last)].total, points[expected].total);
    }
  }
}

TEST(MemoryStackTest, UnchangedCategoryIsOneBox) {
  const timeline::Axis axis({0, 100}, 10, 100);
  const MemoryStack stack =
      StackOf({PointAt(0, 5, 0), PointAt(20, 5, 7), PointAt(60, 5, 2)}, axis, 100);
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
  const MemoryStack stack =
      StackOf({PointAt(0, 1, 0), PointAt(50'100, 1, 90), PointAt(50'200, 1, 0)}, axis, 100'000);
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
  const MemoryStack stack = StackOf({PointAt(30, 5, 0)}, axis, 60);
  ASSERT_EQ(stack.boxes.size(), 1U);
  EXPECT_FLOAT_EQ(stack.boxes[0].x0, 30);
  EXPECT_FLOAT_EQ(stack.boxes[0].x1, 60);
  EXPECT_TRUE(StackOf({}, axis, 100).boxes.empty());
}

// The heights drawn at any column add up to the total of the largest point in it.
TEST(MemoryStackTest, LessonStacksUpToItsPeaks) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 4, 2);
  MemoryTimeline memory(0, analysis::Ledger::kExecution);
  memory.Advance(*snapshot);
  const timeline::Axis axis({snapshot->start_ns, snapshot->end_ns}, 0, 800);
  const MemoryStack stack = StackOf(memory.points(), axis, snapshot->end_ns);
  int64_t peak = 0;
  for (const MemoryTimeline::Point& point : memory.points()) peak = std::max(peak, point.total);
  EXPECT_EQ(stack.max_bytes, peak);
  EXPECT_LT(stack.boxes.size(), 800U * query::kNumMemoryCategories);
  for (const StackBox& box : stack.boxes) EXPECT_LT(box.low_bytes, box.high_bytes);
}

}  // namespace
}  // namespace shardscope::panels
