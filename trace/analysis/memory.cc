#include "trace/analysis/memory.h"

#include <algorithm>

namespace shardscope::analysis {
std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger) {
  using Change = MemoryTimeline::Change;
  std::vector<MemoryPeak> peaks;
  std::vector<Change> changes;
  for (const query::RankRows& rows : snapshot.ranks) {
    changes.clear();
    changes.reserve(rows.memory.size());
    for (const query::MemoryEvent& event : rows.memory) {
      changes.push_back(MemoryTimeline::ChangeOf(event, ledger));
    }
    if (!std::is_sorted(changes.begin(), changes.end(), MemoryTimeline::Earlier)) {
      std::stable_sort(changes.begin(), changes.end(), MemoryTimeline::Earlier);
    }
    MemoryPeak peak;
    peak.rank = rows.rank;
    CategoryBytes live{};
    int64_t total = 0;
    for (const Change& change : changes) {
      const auto category = static_cast<size_t>(change.category);
      live[category] += change.bytes;
      total += change.bytes;
      peak.peak_of[category] = std::max(peak.peak_of[category], live[category]);
      if (total <= peak.peak_bytes) continue;
      peak.peak_bytes = total;
      peak.peak_time_ns = change.time_ns;
      peak.at_peak = live;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

MemoryTimeline::Change MemoryTimeline::ChangeOf(const query::MemoryEvent& event, Ledger ledger) {
  return {ledger == Ledger::kIssue ? event.issued_ns : event.executed_ns, event.bytes,
          event.category};
}

// One point an event, also where times are equal: an op that allocates and then frees at one issue
// time has both live in between, and an allocator would report that.
void MemoryTimeline::Advance(const query::Snapshot& snapshot) {
  const query::RankRows* rows = snapshot.FindRank(rank_);
  if (rows == nullptr || changes_.size() >= rows->memory.size()) return;
  const auto old_size = static_cast<std::ptrdiff_t>(changes_.size());
  for (size_t at = changes_.size(); at < rows->memory.size(); ++at) {
    changes_.push_back(ChangeOf(rows->memory[at], ledger_));
  }
  const auto middle = changes_.begin() + old_size;
  std::stable_sort(middle, changes_.end(), Earlier);
  // Late events are younger in commit order, so they go behind old ones of the same time.
  const auto first_changed = std::upper_bound(changes_.begin(), middle, *middle, Earlier);
  const auto keep = static_cast<size_t>(first_changed - changes_.begin());
  std::inplace_merge(changes_.begin(), middle, changes_.end(), Earlier);

  points_.resize(keep);
  points_.reserve(changes_.size());
  for (size_t at = keep; at < changes_.size(); ++at) {
    Point point = at == 0 ? Point{} : points_[at - 1];
    point.time_ns = changes_[at].time_ns;
    point.bytes[static_cast<size_t>(changes_[at].category)] += changes_[at].bytes;
    point.total += changes_[at].bytes;
    points_.push_back(point);
  }
}

}  // namespace shardscope::analysis
