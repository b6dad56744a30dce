#include "trace/analysis/memory.h"

#include <algorithm>

namespace shardscope::analysis {
namespace {

int64_t TimeOf(const query::MemoryEvent& event, Ledger ledger) {
  return ledger == Ledger::kIssue ? event.issued_ns : event.executed_ns;
}

}  // namespace

std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger) {
  std::vector<MemoryPeak> peaks;
  for (const query::RankRows& rows : snapshot.ranks) {
    MemoryTimeline timeline(rows.rank, ledger);
    timeline.Advance(snapshot);
    MemoryPeak peak;
    peak.rank = rows.rank;
    for (const MemoryTimeline::Point& point : timeline.points()) {
      for (size_t i = 0; i < point.bytes.size(); ++i) {
        peak.peak_of[i] = std::max(peak.peak_of[i], point.bytes[i]);
      }
      if (point.total <= peak.peak_bytes) continue;
      peak.peak_bytes = point.total;
      peak.peak_time_ns = point.time_ns;
      peak.at_peak = point.bytes;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

// One point an event, also where times are equal: an op that allocates and then frees at one issue
// time has both live in between, and an allocator would report that.
void MemoryTimeline::Advance(const query::Snapshot& snapshot) {
  const query::RankRows* rows = snapshot.FindRank(rank_);
  if (rows == nullptr || consumed_ >= rows->memory.size()) return;
  const auto earlier = [this](const query::MemoryEvent& a, const query::MemoryEvent& b) {
    return TimeOf(a, ledger_) < TimeOf(b, ledger_);
  };
  const auto old_size = static_cast<std::ptrdiff_t>(events_.size());
  for (; consumed_ < rows->memory.size(); ++consumed_) events_.push_back(rows->memory[consumed_]);
  const auto middle = events_.begin() + old_size;
  std::stable_sort(middle, events_.end(), earlier);
  // Late events are younger in commit order, so they go behind old ones of the same time.
  const auto first_changed = std::upper_bound(events_.begin(), middle, *middle, earlier);
  const auto keep = static_cast<size_t>(first_changed - events_.begin());
  std::inplace_merge(events_.begin(), middle, events_.end(), earlier);

  points_.resize(keep);
  points_.reserve(events_.size());
  for (size_t i = keep; i < events_.size(); ++i) {
    Point point = i == 0 ? Point{} : points_[i - 1];
    point.time_ns = TimeOf(events_[i], ledger_);
    point.bytes[static_cast<size_t>(events_[i].category)] += events_[i].bytes;
    point.total += events_[i].bytes;
    points_.push_back(point);
  }
}

std::vector<MemoryTimeline::Point> MemoryTimeline::Sample(int64_t from_ns, int64_t to_ns,
                                                          int max_points) const {
  std::vector<Point> sampled;
  if (points_.empty() || to_ns <= from_ns || max_points < 3) return sampled;
  const auto time_less = [](const Point& point, int64_t time_ns) {
    return point.time_ns < time_ns;
  };
  auto at = std::lower_bound(points_.begin(), points_.end(), from_ns, time_less);
  const auto end = std::lower_bound(at, points_.end(), to_ns, time_less);
  if (at != points_.begin()) {
    sampled.push_back(*(at - 1));  // what was live when the range begins
    sampled.back().time_ns = from_ns;
  }
  if (end - at < max_points) {
    sampled.insert(sampled.end(), at, end);
    return sampled;
  }
  const int64_t bins = (max_points - 1) / 2;
  for (int64_t bin = 0; bin < bins && at != end; ++bin) {
    // Split so that no product overflows: a view may span days.
    const int64_t bin_end_ns = bin + 1 == bins ? to_ns
                                               : from_ns + (to_ns - from_ns) / bins * (bin + 1) +
                                                     (to_ns - from_ns) % bins * (bin + 1) / bins;
    const auto next = std::lower_bound(at, end, bin_end_ns, time_less);
    if (next == at) continue;
    const auto largest = std::max_element(
        at, next, [](const Point& a, const Point& b) { return a.total < b.total; });
    sampled.push_back(*largest);
    if (largest != next - 1) sampled.push_back(*(next - 1));
    at = next;
  }
  return sampled;
}

}  // namespace shardscope::analysis
