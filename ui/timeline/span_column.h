// SpanColumn: the spans of one lane, sorted by start, with a pyramid of busy shares for coarse
// views. Grows by appending; nearly sorted input is put in order. No ImGui; one thread writes,
// readers do not run meanwhile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/timeline/axis.h"

namespace shardscope::timeline {

struct Span {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t row = 0;  // of RankRows::op_runs; for the exposed lane 0
  query::OpClass op_class = query::OpClass::kHost;
  uint8_t shade = 0;     // index of the unit, for the lightness
  bool instant = false;  // the issue of an op: a tick without length
};

// Busy ns per class of span. Five slots are enough for every lane (forward, backward, optimizer,
// copy, recompute).
inline constexpr size_t kNumSlots = 5;
using SlotBusy = std::array<float, kNumSlots>;
size_t SlotOf(query::OpClass op_class);

// Sums of busy ns per slot in bins of 2^k ns. On the finest level there are no more than a few bins
// a span, which show all that spans of equal distances have to show, and at most kMostBins: when
// the run outgrows them, the finest level is dropped. Most lanes have one slot, so that bins have
// no more than were used: hundreds of ranks have thousands of lanes.
class DensityPyramid {
 public:
  // Columns() has it after the next Update().
  void Add(int64_t start_ns, int64_t end_ns, size_t slot);
  // Costs what was added since the last one, if that came in about the order of its times.
  void Update();
  void ShrinkToFit();  // when no more are expected

  // Busy ns per slot in each of `num_columns` equal parts of `range`, in one pass over the coarsest
  // level whose bins are at most half a part wide (or the finest there is).
  std::vector<SlotBusy> Columns(Range range, int num_columns) const;
  size_t num_slots() const { return num_slots_; }  // in use: those behind are 0
  int64_t finest_ns() const { return int64_t{1} << finest_shift_; }

 private:
  static constexpr int kFirstShift = 18;                 // 262 us
  static constexpr size_t kLeastBins = size_t{1} << 13;  // that all lanes may have
  static constexpr size_t kMostBins = size_t{1} << 16;
  static constexpr size_t kBinsOfASpan = 4;

  // Of a level: `num_slots_` of a bin, then those of the next.
  using Level = std::vector<float>;

  size_t MaxBins() const;
  void Widen(size_t num_slots);
  void DropFinest();
  // Bins from `first` on of the level above: pairs of this one's, added up.
  void AddPairs(const Level& level, size_t first, Level* coarser) const;

  size_t num_slots_ = 1;
  size_t num_spans_ = 0;
  int finest_shift_ = kFirstShift;
  bool has_origin_ = false;
  int64_t origin_ns_ = 0;
  std::vector<Level> levels_;        // [0] is the finest
  size_t first_changed_ = SIZE_MAX;  // bin of the finest level that the others do not have yet
};

// The op runs of a rank that its columns take times from; grows with each Snapshot. Shared because
// several columns of one rank read it.
using OpRunsPtr = std::shared_ptr<const query::RowList<query::OpRun>>;

// Runs have millions of spans, so that those of op runs are held as row numbers: their times are in
// the Snapshot's rows. Other spans are held with their times.
class SpanColumn {
 public:
  SpanColumn() = default;
  // Of spans of op runs: the times of an issue are its row's `issued_ns`, of others `started_ns`
  // and `ended_ns`. The rows must be in `op_runs` before their spans are inserted.
  explicit SpanColumn(OpRunsPtr op_runs) : op_runs_(std::move(op_runs)) {}

  // density() has it after the next UpdateDensity().
  void Insert(const Span& span);
  void UpdateDensity() { density_.Update(); }
  void ShrinkToFit();  // when no more are expected

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  Span operator[](size_t index) const;  // looks at its row
  bool IsInstant(size_t index) const { return entries_[index].instant; }

  // Indices [first, last) of the spans that may touch `range`; the first few may end before it.
  size_t FirstTouching(int64_t time_ns) const;    // first whose end > time_ns
  size_t FirstStartingAt(int64_t time_ns) const;  // first with start >= time_ns

  // The span that contains `time_ns`, or the nearest within `tolerance_ns`; size() if none.
  size_t Nearest(int64_t time_ns, int64_t tolerance_ns) const;

  const DensityPyramid& density() const { return density_; }

 private:
  static constexpr size_t kBlock = 64;
  struct Entry {
    uint32_t row = 0;
    query::OpClass op_class = query::OpClass::kHost;
    uint8_t shade = 0;
    bool instant = false;
  };
  struct Times {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
  };
  Times TimesOf(size_t index) const;
  void UpdateBlocks(size_t inserted);

  OpRunsPtr op_runs_;
  std::vector<Entry> entries_;
  std::vector<Times> times_;  // beside entries_; none with op_runs_
  // Of every 64 spans, for binary searches: the start of the first, and the largest end of all
  // spans before them.
  std::vector<int64_t> block_start_ns_;
  std::vector<int64_t> block_end_before_ns_;
  int64_t last_start_ns_ = INT64_MIN;   // of the last span
  int64_t largest_end_ns_ = INT64_MIN;  // of all
  DensityPyramid density_;
};

}  // namespace shardscope::timeline
