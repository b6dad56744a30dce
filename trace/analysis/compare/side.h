// One side of a comparison: what each of its steps was for, by unit, phase and kind of op.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/compare/step_path.h"
#include "trace/analysis/scope.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// What is one row of a comparison. Idle time is of the op that came next; without one it is the end
// of the step, and all texts are empty.
struct RowKey {
  StepPart part = StepPart::kIdle;
  std::string kind;          // as plan_op.kind
  std::string phase;         // as plan_op.phase
  std::string unit;          // the unit, or the segment of an op that belongs to no unit
  std::string communicator;  // without its group: "shard" of "shard/1"; of communication only

  auto operator<=>(const RowKey&) const = default;
};

// A row in one step, summed over ranks.
struct RowStep {
  int32_t ordinal = 0;     // index into MeasuredSide::steps
  int64_t count = 0;       // how many of these ops ran; 0 of idle rows
  int64_t on_path_ns = 0;  // of the step's time: PathOf()
  int64_t busy_ns = 0;     // how long the ops took, hidden or not; 0 of idle rows
};

// The op run of a row that took longest: where it is seen.
struct RowPlace {
  query::OpRunId op_run = query::OpRunId::None();  // none: nothing ran, as at the end of a step
  int32_t rank = 0;
  int32_t step = 0;
  int64_t length_ns = -1;  // of the step's time in idle rows too: what it waited for came late
};

// All-gathers of a unit in a phase.
struct GatherLead {
  static constexpr int kMost = 8;  // further ahead counts as this
  // How many ranks and steps had the gather issued so many units ahead of the one that it is for.
  std::array<int64_t, kMost + 1> counts{};

  int Median() const;
};
using PhaseOfUnit = std::pair<std::string, std::string>;  // unit, phase

struct MeasuredSide {
  int num_ranks = 0;
  std::vector<int32_t> steps;    // that every rank finished, without warm-up; ascending
  std::vector<int64_t> step_ns;  // of each, summed over ranks
  std::vector<int64_t> tokens;   // of each, of all ranks; 0: not known
  std::vector<int32_t> middle;   // as MiddleSteps() has them: the steps that figures are of
  std::map<RowKey, std::vector<RowStep>> rows;  // by ordinal; they add up to step_ns
  std::map<RowKey, RowPlace> places;            // of the same rows
  std::vector<std::string> units;  // in the order of their first op, forward before all
  std::map<PhaseOfUnit, GatherLead> leads;
  std::map<PhaseOfUnit, int64_t> sent_bytes;  // on the wire, in the middle steps, of all ranks
  std::string problem;                        // why there is nothing to compare; empty if there is
};

using UnitSet = std::set<std::string>;

// The units that ops name, if they hold segments: none where these are in no unit, and others are
// only sent together (DDP's buckets), or where units are not known.
UnitSet UnitsOfSegments(const query::Snapshot& snapshot);

// `scope`: a range of steps of `snapshot`, which has all rows. Warm-up (TimedFrom()) is left out if
// there is more.
//
// A step's time is the mean over ranks: ranks wait for one another in every step, so that over
// several steps each takes as long as the slowest; which rank is slowest in one step is decided by
// microseconds, and taking that one would mix what different ranks do. In a mean over ranks the
// parts add up to the step, and a rank that is late is there with its share: its compute, and the
// waits of the others. No clock is compared with another's.
//
// `other_units`: of the run that it is compared with, where a segment of no unit belongs to one of
// these.
MeasuredSide Measure(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& breakdowns,
                     const ScopedSteps& scope, const UnitSet& other_units = {});

}  // namespace shardscope::analysis
