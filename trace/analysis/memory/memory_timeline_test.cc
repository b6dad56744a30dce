#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "trace/analysis/memory/memory.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

struct Event {
  int64_t time_ns;
  int64_t bytes;
  query::MemoryCategory category;
};

// A plain sum over sorted events.
std::vector<MemoryTimeline::Point> PointsOf(std::vector<Event> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
  std::vector<MemoryTimeline::Point> points;
  MemoryTimeline::Point point;
  for (const Event& event : events) {
    point.time_ns = event.time_ns;
    point.bytes[static_cast<size_t>(event.category)] += event.bytes;
    point.total += InTotal(event.category, event.bytes);
    points.push_back(point);
  }
  return points;
}

void ExpectPoints(const MemoryTimeline& timeline,
                  const std::vector<MemoryTimeline::Point>& points) {
  ASSERT_EQ(timeline.size(), points.size());
  MemoryTimeline::Point visited;
  for (size_t at = 0; at < points.size(); ++at) {
    timeline.Step(at, &visited);
    for (const MemoryTimeline::Point& point : {timeline.At(at), visited}) {
      ASSERT_EQ(point.time_ns, points[at].time_ns) << at;
      ASSERT_EQ(point.bytes, points[at].bytes) << at;
      ASSERT_EQ(point.total, points[at].total) << at;
    }
  }
}

void ExpectSearches(const MemoryTimeline& timeline,
                    const std::vector<MemoryTimeline::Point>& points, std::mt19937* random) {
  const int64_t end_ns = points.back().time_ns + 2;
  for (int query = 0; query < 200; ++query) {
    const size_t first = (*random)() % points.size();
    const size_t last = first + 1 + (*random)() % (points.size() - first);
    size_t largest = first;
    for (size_t at = first; at < last; ++at) {
      if (points[at].total > points[largest].total) largest = at;
    }
    ASSERT_EQ(timeline.Largest(first, last), largest) << first << " to " << last;
    const auto time_ns = static_cast<int64_t>((*random)() % static_cast<uint64_t>(end_ns));
    size_t at = first;
    while (at < points.size() && points[at].time_ns < time_ns) ++at;
    ASSERT_EQ(timeline.FirstAt(time_ns, first), at) << time_ns << " from " << first;
    const int64_t latest_ns = time_ns + static_cast<int64_t>((*random)() % 20);
    const size_t near = timeline.FirstNear(time_ns, latest_ns, first);
    size_t most = at;
    while (most < points.size() && points[most].time_ns < latest_ns) ++most;
    ASSERT_GE(near, at) << time_ns << " from " << first;
    ASSERT_LE(near, most) << time_ns << " to " << latest_ns << " from " << first;
    // Of points of one time all or none.
    ASSERT_TRUE(near == first || near == points.size() ||
                points[near - 1].time_ns < points[near].time_ns);
  }
}

// Events come in any order, some at the same time, in portions and in parts of portions.
class MemoryTimelineTest : public testing::TestWithParam<Ledger> {};

TEST_P(MemoryTimelineTest, IsThatOfAPlainSumWhateverTheOrderOfTheRows) {
  std::mt19937 random(3);
  TestSnapshot live(1);
  MemoryTimeline timeline(0, GetParam());
  std::vector<Event> events;
  for (int portion = 0; portion < 25; ++portion) {
    for (int more = 0; more < 90; ++more) {
      // Mostly later than what came before, sometimes much earlier.
      const int64_t start = portion % 4 == 3 ? 0 : portion * 50;
      const Event event{start + static_cast<int64_t>(random() % 80),
                        static_cast<int64_t>(random() % 2000) - 900,
                        static_cast<query::MemoryCategory>(random() % query::kNumMemoryCategories)};
      events.push_back(event);
      query::MemoryEvent& row = live.Memory(0, event.category, event.time_ns, event.bytes);
      const auto elsewhere = static_cast<int64_t>(random() % 100);  // in the other ledger
      (GetParam() == Ledger::kIssue ? row.executed_ns : row.issued_ns) = elsewhere;
    }
    const auto snapshot = live.Build();
    if (portion % 2 == 0) {
      EXPECT_FALSE(timeline.Advance(*snapshot, 37));
      EXPECT_EQ(timeline.size(), events.size() - 90 + 37);
    }
    EXPECT_TRUE(timeline.Advance(*snapshot));
    const std::vector<MemoryTimeline::Point> points = PointsOf(events);
    ExpectPoints(timeline, points);
    ExpectSearches(timeline, points, &random);
  }
}

INSTANTIATE_TEST_SUITE_P(Ledgers, MemoryTimelineTest,
                         testing::Values(Ledger::kExecution, Ledger::kIssue));

}  // namespace
}  // namespace shardscope::analysis
