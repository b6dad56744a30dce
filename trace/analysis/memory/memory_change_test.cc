#include "trace/analysis/memory/memory_change.h"

#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::analysis {
namespace {

Moment At(const query::SnapshotPtr& snapshot, int64_t time_ns) {
  return Moments(snapshot, {time_ns, time_ns + 1}).At(time_ns);
}

TEST(MemoryChange, AddsUpToTheMomentAgain) {
  const query::SnapshotPtr lesson = MakeLessonSnapshot(2, 6, 3);
  const Interval step = TimesOfStep(*lesson, 4).value();
  int changed = 0;
  for (int64_t part = 1; part < 10; ++part) {
    const int64_t time_ns = step.start_ns + (step.end_ns - step.start_ns) * part / 10;
    const Moment since = At(lesson, step.start_ns);
    const Moment at = At(lesson, time_ns);
    const std::vector<MemoryChange> changes = MemoryChanges(since, at);
    ASSERT_EQ(changes.size(), 2u);
    for (size_t rank = 0; rank < changes.size(); ++rank) {
      const MemoryChange& change = changes[rank];
      EXPECT_EQ(since.ranks[rank].live_bytes + change.bytes, at.ranks[rank].live_bytes);
      auto again = since.ranks[rank].live_of_units;
      for (const auto& [key, bytes] : change.units) again[key] += bytes;
      std::erase_if(again, [](const auto& entry) { return entry.second == 0; });
      EXPECT_EQ(again, at.ranks[rank].live_of_units);
      int64_t sum = 0;
      for (const auto& [key, bytes] : change.units) sum += InTotal(key.first, bytes);
      EXPECT_EQ(sum, change.bytes);
      changed += change.units.empty() ? 0 : 1;
    }
    for (const MemoryChange& back : MemoryChanges(at, since)) {
      EXPECT_EQ(back.bytes, -changes[static_cast<size_t>(back.rank)].bytes);
    }
    EXPECT_TRUE(MemoryChanges(at, at).front().units.empty());
  }
  EXPECT_GT(changed, 0);
}

TEST(MemoryChange, WithoutRowsOfMemoryThereIsNone) {
  auto bare = std::make_shared<query::Snapshot>(*MakeLessonSnapshot(2, 3, 1));
  bare->ranks[1].memory = {};
  const int64_t time_ns = TimesOfStep(*bare, 1).value().start_ns;
  const std::vector<MemoryChange> changes = MemoryChanges(At(bare, time_ns), At(bare, time_ns + 1));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].rank, 0);
}

}  // namespace
}  // namespace shardscope::analysis
