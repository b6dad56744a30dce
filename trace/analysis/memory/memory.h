// Peaks of memory by category, and the moment of the highest one. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/query/live_blocks.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

using CategoryBytes =
    std::array<int64_t, query::kNumMemoryCategories>;  // indexed by query::MemoryCategory

// Of `bytes` that come or go, what a rank's total changes by: what is in the host's memory is in
// none.
inline int64_t InTotal(query::MemoryCategory category, int64_t bytes) {
  return category == query::MemoryCategory::kHost ? 0 : bytes;
}

enum class Ledger : uint8_t { kIssue, kExecution };

struct MemoryPeak {
  int32_t rank = 0;
  int64_t peak_bytes = 0;  // of the total, execution ledger
  int64_t peak_time_ns = 0;
  // What was live at that moment; sums to peak_bytes, but for the host's memory.
  CategoryBytes at_peak{};
  CategoryBytes peak_of{};  // each category's own peak
  std::array<int64_t, query::kNumMemoryCategories> peak_of_time_ns{};
  std::map<query::ScheduleId, int64_t> of_schedule;  // highest total in its finished steps
  // Most that the process held from the GPU's driver, and most of that GPU in use by any process; 0
  // if the trace has no rows of it.
  int64_t driver_peak_bytes = 0;
  int64_t device_peak_bytes = 0;
};
std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot,
                                    Ledger ledger = Ledger::kExecution);

// Of the rank that takes the most; 0 without ranks.
inline int64_t LargestPeakBytes(const std::vector<MemoryPeak>& peaks) {
  int64_t largest = 0;
  for (const MemoryPeak& rank : peaks) largest = std::max(largest, rank.peak_bytes);
  return largest;
}

// Which moment of memory is looked at block by block, where none is set: that of the highest peak
// of `rank`, or of the one that takes most; nullopt: no such rank, or nothing was recorded of it.
std::optional<query::BlocksQuery> BlocksAtPeak(const std::vector<MemoryPeak>& peaks,
                                               std::optional<int32_t> rank);

// Of the finished steps [first, last]: of each rank from the start of its first to the end of its
// last, with what was live before; all 0 where a rank has none.
std::vector<MemoryPeak> MemoryPeaksOfSteps(const query::Snapshot& snapshot, int32_t first,
                                           int32_t last);

// The peak of each of rows.steps, as MemoryPeaksOfSteps() has it of that step alone.
std::vector<int64_t> PeakBytesOfEachStep(const query::RankRows& rows);

// Whether each of rows.segments was NCCL's: it was taken while a thread of the rank was in one of
// NCCL's own ranges. What is given back belongs to the owner of the segment.
std::vector<bool> SegmentsOfNccl(const query::Snapshot& snapshot, const query::RankRows& rows);

// A Schedule that ran: what it was predicted to take, and what it took.
struct ScheduleMemory {
  query::ScheduleId id;
  std::string name;
  std::vector<std::pair<int, int>> steps;  // first and last of each stretch
  int64_t predicted_bytes = 0;             // peak in issue order, without temporaries
  int64_t bound_bytes = 0;                 // of the executed peak; 0: not known
  int64_t peak_bytes = 0;  // executed, of the rank that took most; 0: no memory rows
  int32_t peak_rank = 0;
};
// Of the finished steps, in order of the first. `peaks`: MemoryPeaks(snapshot).
std::vector<ScheduleMemory> MemoryOfSchedules(const query::Snapshot& snapshot,
                                              const std::vector<MemoryPeak>& peaks);

// A point an event, ascending in time, also where times are equal: an op that allocates and then
// frees at one issue time has both live in between, and an allocator would report that. Runs have
// millions of points, so that only the changes are held, with what was live before every 64th, and
// a view of them all stays cheap. Append-friendly; one thread.
class MemoryTimeline {
 public:
  struct Point {
    int64_t time_ns = 0;
    CategoryBytes bytes{};
    int64_t total = 0;
  };

  MemoryTimeline(int32_t rank, Ledger ledger) : rank_(rank), ledger_(ledger) {}

  // Takes the next events of a Snapshot, at most `max_events`. Late ones (smaller time) are put in
  // order. false: there are more.
  bool Advance(const query::Snapshot& snapshot, size_t max_events = SIZE_MAX);

  size_t size() const { return changes_.size(); }
  // What is live from the event `at` on; at < size().
  Point At(size_t at) const;
  // Makes of the point before `at` that at `at`: the way to visit many.
  void Step(size_t at, Point* point) const;

  // The first point with time_ns >= `time_ns`, from `first` on; size() if there is none.
  size_t FirstAt(int64_t time_ns, size_t first = 0) const;
  // FirstAt() of a time in [time_ns, latest_ns]: where points are dense, one that is found without
  // a look at any.
  size_t FirstNear(int64_t time_ns, int64_t latest_ns, size_t first) const;
  // The first of the largest totals among the points [first, last); first < last <= size().
  size_t Largest(size_t first, size_t last) const;

 private:
  static constexpr size_t kBlock = 64;
  static constexpr size_t kManyPoints = 8 * kBlock;

  struct Change {
    int64_t time_ns;
    int64_t bytes : 56;
    uint64_t category : 8;
    int64_t in_total() const {
      return InTotal(static_cast<query::MemoryCategory>(category), bytes);
    }
  };
  struct Block {
    CategoryBytes before{};  // live before its first change
    int64_t total_before = 0;
    int64_t largest_total = INT64_MIN;
    size_t largest = 0;  // the first point that has it
  };
  static bool Earlier(const Change& a, const Change& b) { return a.time_ns < b.time_ns; }
  void MakeBlocks(size_t first_changed);
  // The first block, from that of `first` on, that begins at `time_ns` or later.
  size_t BlockAt(int64_t time_ns, size_t first) const;
  // FirstAt() by that block: it is in the one before, or is its first point.
  size_t FirstInFrontOf(size_t block, int64_t time_ns, size_t first) const;

  int32_t rank_;
  Ledger ledger_;
  std::vector<Change> changes_;
  std::vector<Block> blocks_;            // the last one may be short
  std::vector<int64_t> block_start_ns_;  // beside blocks_, so that a search touches little
};

}  // namespace shardscope::analysis
