// RankGrid: what each rank did in each step, so that many ranks can be looked at at once: how long
// the step took, what of it was exposed communication, how late the rank came to its collectives,
// and its peak of memory. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trace/analysis/steps/breakdown.h"
#include "trace/base/enum_count.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// One rank and step. A rank is late to a collective by what it arrives after the median of the
// others (as a delay of the front, trace/analysis/explain/front.h), and else by nothing. Sends and
// receives do not count: a stage of a pipeline waits for the one before by its design.
struct RankCell {
  bool is_finished = false;     // else all below is 0
  int32_t num_collectives = 0;  // that all ranks of its group came to
  int32_t num_last = 0;         // of these, to which it came last
  int64_t step_ns = 0;
  int64_t exposed_ns = 0;
  int64_t late_ns = 0;       // sum over its collectives
  int64_t last_late_ns = 0;  // of late_ns, where it came last
  int64_t peak_bytes = 0;    // of live memory, really executed

  bool operator==(const RankCell&) const = default;
};

// What a cell is looked at for.
enum class RankFigure : uint8_t { kExposedShare, kLateness, kStepTime, kMemory };
inline constexpr int kNumRankFigures = kCountOf<RankFigure>;
// A share of the step, ns a collective, ns, bytes; nullopt: not finished, or without collectives.
std::optional<double> ValueOf(const RankCell& cell, RankFigure figure);

struct RankGrid {
  std::vector<int32_t> ranks;   // ascending
  std::vector<int32_t> steps;   // that any rank has finished, ascending
  std::vector<RankCell> cells;  // a row a rank, a column a step

  // By index of rank and step.
  const RankCell& At(size_t rank, size_t step) const { return cells[rank * steps.size() + step]; }
};

// Of the whole run; `snapshot` has all rows, not a part of them (`summed_op_runs`, `loading`).
// `steps`: as Breakdowns() gives them. `before`: of an older Snapshot of the same run, whose
// settled steps are taken over while the run goes on; may be null.
RankGrid MakeRankGrid(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                      const RankGrid* before = nullptr);

}  // namespace shardscope::analysis
