#include "trace/query/level_of_detail.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>

namespace shardscope::query {

std::ostream& operator<<(std::ostream& out, const DrawItem& item) {
  return out << "[" << item.start_ns << ", " << item.end_ns << ") busy " << item.busy_ns
             << " class " << static_cast<int>(item.op_class) << " spans " << item.num_spans
             << " row " << item.row;
}

namespace {

// The definition, one span at a time.
std::vector<DrawItem> BruteForce(const std::vector<DetailSpan>& spans, int64_t from_ns,
                                 int64_t to_ns, double ns_per_pixel) {
  const auto min_ns = std::max<int64_t>(1, std::llround(kMinSpanPixels * ns_per_pixel));
  const auto cell_ns = std::max<int64_t>(1, std::llround(kFoldPixels * ns_per_pixel));
  std::vector<DrawItem> items;
  std::array<int64_t, kNumOpClasses> busy = {};
  int64_t cell = -1;  // of the open run; -1: none is open
  int64_t longest = -1;
  for (const DetailSpan& span : spans) {
    if (span.end_ns <= from_ns) continue;
    const int64_t duration = span.end_ns - span.start_ns;
    // At the right edge a run is completed to the end of its cell.
    const bool continues = duration < min_ns && cell == span.start_ns / cell_ns;
    if (span.start_ns >= to_ns && !continues) break;
    if (duration >= min_ns) {
      items.push_back({span.start_ns, span.end_ns, duration, span.op_class, 1, span.row});
      cell = -1;
      continue;
    }
    if (cell != span.start_ns / cell_ns) {
      cell = span.start_ns / cell_ns;
      busy = {};
      longest = -1;
      items.push_back({span.start_ns, span.end_ns, 0, span.op_class, 0, span.row});
    }
    DrawItem& run = items.back();
    busy[static_cast<size_t>(span.op_class)] += duration;
    run.busy_ns += duration;
    run.end_ns = std::max(run.end_ns, span.end_ns);
    ++run.num_spans;
    if (duration > longest) {
      longest = duration;
      run.row = span.row;
    }
    run.op_class = static_cast<OpClass>(std::max_element(busy.begin(), busy.end()) - busy.begin());
  }
  return items;
}

// Spans of one stream: they do not overlap, and a few are a thousand times longer than the rest.
std::vector<DetailSpan> RandomSpans(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<DetailSpan> spans;
  int64_t time_ns = 1000;
  for (size_t i = 0; i < count; ++i) {
    time_ns += random() % 300;
    const auto duration =
        static_cast<int64_t>(random() % 100 == 0 ? random() % 100'000 : 1 + random() % 200);
    spans.push_back({time_ns, time_ns + duration, static_cast<OpClass>(random() % kNumOpClasses),
                     static_cast<uint32_t>(i)});
    time_ns += duration;
  }
  return spans;
}

TEST(TrackDetail, EqualsBruteForceAtEveryZoom) {
  for (const size_t count : {size_t{1}, size_t{31}, size_t{33}, size_t{257}, size_t{20'000}}) {
    const std::vector<DetailSpan> spans = RandomSpans(count, static_cast<uint32_t>(count));
    TrackDetail detail;
    for (const DetailSpan& span : spans) detail.Append(span);
    const int64_t end_ns = spans.back().end_ns;
    std::mt19937 random(7);
    for (double ns_per_pixel = 0.5; ns_per_pixel < 2e6; ns_per_pixel *= 3) {
      for (int i = 0; i < 20; ++i) {
        const auto from_ns = static_cast<int64_t>(random() % static_cast<uint64_t>(end_ns));
        const int64_t to_ns = from_ns + static_cast<int64_t>(1000 * ns_per_pixel);
        ASSERT_EQ(detail.Visible(from_ns, to_ns, ns_per_pixel),
                  BruteForce(spans, from_ns, to_ns, ns_per_pixel))
            << count << " spans, " << ns_per_pixel << " ns per pixel, from " << from_ns;
      }
    }
  }
}

TEST(TrackDetail, FoldingLosesNoTimeAndNoSpan) {
  const std::vector<DetailSpan> spans = RandomSpans(50'000, 3);
  TrackDetail detail;
  int64_t busy_ns = 0;
  for (const DetailSpan& span : spans) {
    detail.Append(span);
    busy_ns += span.end_ns - span.start_ns;
  }
  const int64_t end_ns = spans.back().end_ns;
  const double ns_per_pixel = static_cast<double>(end_ns) / 1920;
  int64_t shown_ns = 0;
  size_t shown = 0;
  const std::vector<DrawItem> items = detail.Visible(0, end_ns + 1, ns_per_pixel);
  for (const DrawItem& item : items) {
    shown_ns += item.busy_ns;
    shown += item.num_spans;
  }
  EXPECT_EQ(shown_ns, busy_ns);
  EXPECT_EQ(shown, spans.size());
  // As many items as pixels allow: a run a cell, and a wide span can split a cell's run in two.
  EXPECT_LE(items.size(), 2u * 1920);
}

TEST(TrackDetail, GrowingGivesTheSameAsBuildingAtOnce) {
  const std::vector<DetailSpan> spans = RandomSpans(3000, 5);
  TrackDetail in_order;
  for (const DetailSpan& span : spans) in_order.Append(span);
  // The same spans, some of them late.
  std::vector<DetailSpan> shuffled = spans;
  for (size_t i = 10; i < shuffled.size(); i += 300) std::swap(shuffled[i], shuffled[i - 9]);
  TrackDetail late;
  for (const DetailSpan& span : shuffled) late.Append(span);
  EXPECT_EQ(late.Visible(0, spans.back().end_ns, 1000),
            in_order.Visible(0, spans.back().end_ns, 1000));
}

TEST(TrackDetail, AtFindsTheSpanOfATime) {
  TrackDetail detail;
  detail.Append({10, 20, OpClass::kForward, 0});
  detail.Append({30, 40, OpClass::kForward, 1});
  EXPECT_EQ(detail.At(9), -1);
  EXPECT_EQ(detail.At(10), 0);
  EXPECT_EQ(detail.At(20), -1);
  EXPECT_EQ(detail.At(39), 1);
  EXPECT_EQ(detail.At(40), -1);
}

TEST(RunDetail, UpdatesAppend) {
  Snapshot snapshot;
  snapshot.plan_ops[1] = {};
  snapshot.plan_ops[1].op_class = OpClass::kAllGather;
  snapshot.ranks.push_back({});
  OpRun run;
  run.plan_op = 1;
  run.track = 5;
  for (int i = 0; i < 10; ++i) {
    run.started_ns = i * 100;
    run.ended_ns = i * 100 + 50;
    snapshot.ranks[0].op_runs.Append(run);
  }
  RunDetail detail;
  detail.Update(snapshot);
  detail.Update(snapshot);
  ASSERT_NE(detail.Track(5), nullptr);
  EXPECT_EQ(detail.Track(6), nullptr);
  EXPECT_EQ(detail.Track(5)->size(), 10u);
  snapshot.ranks[0].op_runs.Append(run);
  detail.Update(snapshot);
  EXPECT_EQ(detail.Track(5)->size(), 11u);
  EXPECT_EQ((*detail.Track(5))[10].row, 10u);
  EXPECT_EQ((*detail.Track(5))[10].op_class, OpClass::kAllGather);
}

}  // namespace
}  // namespace shardscope::query
