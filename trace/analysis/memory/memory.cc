#include "trace/analysis/memory/memory.h"

#include <algorithm>

namespace shardscope::analysis {
namespace {

// What a peak needs of an event: millions are held.
struct Change {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  query::MemoryCategory category = query::MemoryCategory::kOther;
};

bool Earlier(const Change& a, const Change& b) { return a.time_ns < b.time_ns; }

void AddDevice(const query::RankRows& rows, MemoryPeak* peak) {
  std::vector<query::MemorySegment> segments(rows.segments.begin(), rows.segments.end());
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  int64_t held = 0;
  for (const query::MemorySegment& segment : segments) {
    held = std::max<int64_t>(held + segment.bytes, 0);  // what was there before is unknown
    peak->driver_peak_bytes = std::max(peak->driver_peak_bytes, held);
  }
  for (const query::MemoryCounter& used : rows.device_used) {
    peak->device_peak_bytes = std::max(peak->device_peak_bytes, used.bytes);
  }
}

}  // namespace

std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger) {
  std::vector<MemoryPeak> peaks;
  std::vector<Change> changes;
  for (const query::RankRows& rows : snapshot.ranks) {
    changes.clear();
    changes.reserve(rows.memory.size());
    for (const query::MemoryEvent& event : rows.memory) {
      changes.push_back({ledger == Ledger::kIssue ? event.issued_ns : event.executed_ns,
                         event.bytes, event.category});
    }
    if (!std::is_sorted(changes.begin(), changes.end(), Earlier)) {
      std::stable_sort(changes.begin(), changes.end(), Earlier);
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
    AddDevice(rows, &peak);
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace shardscope::analysis
