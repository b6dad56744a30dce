// Memory over time by category, and peaks. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

using CategoryBytes =
    std::array<int64_t, query::kNumMemoryCategories>;  // indexed by query::MemoryCategory

enum class Ledger : uint8_t { kIssue, kExecution };

struct MemoryPeak {
  int32_t rank = 0;
  int64_t peak_bytes = 0;  // of the total, execution ledger
  int64_t peak_time_ns = 0;
  CategoryBytes at_peak{};  // what was live at that moment; sums to peak_bytes
  CategoryBytes peak_of{};  // each category's own peak
};
std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot,
                                    Ledger ledger = Ledger::kExecution);

// Live bytes of one rank over time, at every change, ascending. Append-friendly: Advance() adds
// events of a newer Snapshot.
class MemoryTimeline {
 public:
  MemoryTimeline(int32_t rank, Ledger ledger) : rank_(rank), ledger_(ledger) {}

  // Takes the events that came since the last call. Late events (smaller time) are put in order.
  void Advance(const query::Snapshot& snapshot);

  struct Point {
    int64_t time_ns = 0;
    CategoryBytes bytes{};
    int64_t total = 0;
  };
  const std::vector<Point>& points() const { return points_; }

 private:
  // What a point needs of an event: millions are held.
  struct Change {
    int64_t time_ns = 0;
    int64_t bytes = 0;
    query::MemoryCategory category = query::MemoryCategory::kOther;
  };
  friend std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger);
  static bool Earlier(const Change& a, const Change& b) { return a.time_ns < b.time_ns; }
  static Change ChangeOf(const query::MemoryEvent& event, Ledger ledger);

  int32_t rank_;
  Ledger ledger_;
  std::vector<Change> changes_;  // one a point
  std::vector<Point> points_;
};

}  // namespace shardscope::analysis
