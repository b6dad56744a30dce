#include "ui/shell/run/change_summary.h"

#include <algorithm>

#include "trace/analysis/memory/memory_timeline.h"

namespace shardscope::shell {
namespace {

struct ChangePoints {
  int32_t newest = -1;
  int32_t previous = 0;  // first step after the change before; 0 if there was none
};

ChangePoints FindChangePoints(const query::Snapshot& snapshot) {
  ChangePoints points;
  for (const query::Marker& marker : snapshot.markers) {
    if (!IsKnobChange(marker)) continue;
    if (marker.step > points.newest) {
      points.previous = std::max(points.newest, 0);
      points.newest = marker.step;
    }
  }
  return points;
}

// The newest step that every rank finished.
int32_t LastCompleteStep(const query::Snapshot& snapshot) {
  int32_t last = -1;
  for (const query::RankRows& rank : snapshot.ranks) {
    if (rank.steps.empty()) return -1;
    const int32_t newest = rank.steps.back().step;
    last = last < 0 ? newest : std::min(last, newest);
  }
  return last;
}

int64_t StartOfStep(const std::vector<analysis::StepBreakdown>& steps, int32_t step) {
  int64_t start = 0;
  for (const analysis::StepBreakdown& row : steps) {
    if (row.step == step && (start == 0 || row.start_ns < start)) start = row.start_ns;
  }
  return start;
}

// Largest live bytes of any rank while it ran the steps [first, last].
int64_t PeakBytes(const query::Snapshot& snapshot, int32_t first, int32_t last) {
  int64_t peak = 0;
  for (const query::RankRows& rank : snapshot.ranks) {
    int64_t from = INT64_MAX;
    int64_t to = INT64_MIN;
    for (const query::Step& step : rank.steps) {
      if (step.step < first || step.step > last) continue;
      from = std::min(from, step.start_ns);
      to = std::max(to, step.end_ns);
    }
    if (from > to) continue;
    analysis::MemoryTimeline timeline(rank.rank, analysis::Ledger::kExecution);
    timeline.Advance(snapshot);
    // With what was live when the first of them began.
    const size_t inside = timeline.FirstAt(from);
    const size_t begin = inside > 0 ? inside - 1 : inside;
    const size_t end = timeline.FirstAt(to + 1, inside);
    if (begin < end) peak = std::max(peak, timeline.At(timeline.Largest(begin, end)).total);
  }
  return peak;
}

}  // namespace

bool IsKnobChange(const query::Marker& marker) {
  return !marker.key.empty() && marker.old_value != marker.new_value &&
         marker.old_value.rfind("auto:", 0) != 0;
}

ui::ChangeSummary SummarizeChange(const query::Snapshot& snapshot,
                                  const std::vector<analysis::StepBreakdown>& steps) {
  ui::ChangeSummary change;
  const ChangePoints points = FindChangePoints(snapshot);
  if (points.newest < 0) return change;
  change.valid = true;
  change.step = points.newest;
  for (const query::Marker& marker : snapshot.markers) {
    if (IsKnobChange(marker) && marker.step == points.newest) change.markers.push_back(marker);
  }
  change.time_ns = StartOfStep(steps, points.newest);
  if (change.time_ns == 0) change.time_ns = change.markers.front().time_ns;

  const int32_t first_before = std::max(points.previous, analysis::kWarmUpSteps);
  const int32_t num_before = points.newest - first_before;
  const int32_t num_after = LastCompleteStep(snapshot) - points.newest + 1;
  const int32_t count = std::min({num_before, num_after, kMaxChangeSteps});
  change.complete = count >= ui::kChangeSteps;
  if (count <= 0) return change;
  const int32_t last_after = points.newest + count - 1;
  change.before = analysis::SummarizeRange(steps, points.newest - count, points.newest - 1);
  change.after = analysis::SummarizeRange(steps, points.newest, last_after);
  if (change.complete) {
    change.peak_before_bytes = PeakBytes(snapshot, points.newest - count, points.newest - 1);
    change.peak_after_bytes = PeakBytes(snapshot, points.newest, last_after);
  }
  return change;
}

}  // namespace shardscope::shell
