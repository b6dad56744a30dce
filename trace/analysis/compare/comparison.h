// Comparison: two runs, or two ranges of steps of one, part by part. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/compare/delta.h"
#include "trace/analysis/compare/histogram.h"
#include "trace/analysis/compare/named_work.h"
#include "trace/analysis/compare/setup.h"
#include "trace/analysis/compare/side.h"
#include "trace/analysis/compare/unit_match.h"
#include "trace/analysis/scope.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// What ops of one kind did for one unit in one phase.
struct ComparedRow {
  RowKey key;          // with A's name of the unit
  std::string b_unit;  // B's, if that is another
  double a_count = 0;  // ops of a rank in a step; 0: not in A
  double b_count = 0;
  // Of idle time, which is no op: whether the op that it is in front of runs on that side.
  bool a_has_next = true;
  bool b_has_next = true;
  double a_busy_ns = 0;  // that they took, hidden or not
  double b_busy_ns = 0;
  Delta on_path;
  RowPlace place;  // in A; none where A has no such op
};

// What became of a row in B. Idle time is added or gone with the op that it is in front of.
enum class RowState : uint8_t { kAlike, kSlower, kFaster, kAdded, kGone };
RowState StateOf(const ComparedRow& row);

struct ComparedWork {  // a kernel, or an operator
  std::string name;
  double a_count = 0;  // of a rank in a step
  double b_count = 0;
  double a_ns = 0;
  double b_ns = 0;
};

struct ComparedSide {
  std::string name;
  int num_ranks = 0;
  int num_steps = 0;
  int32_t first_step = 0;
  int32_t last_step = -1;
  std::vector<int64_t> step_ns;  // of each, the mean over its ranks
  double tokens = 0;             // of all ranks in a step, mean over the middle steps; 0: not known
  std::vector<int32_t> knobs_turned;  // steps within, at which one was
  ScheduleFacts schedule;
  PeakFacts peaks;
};

struct Comparison {
  ComparisonVerdict verdict = ComparisonVerdict::kNotComparable;
  std::string sentence;
  ComparedSide a;
  ComparedSide b;
  Delta step;
  std::array<Delta, kNumStepParts> parts;  // by StepPart; they add up to `step`
  StepHistogram histogram;                 // of the times of all steps of both
  std::vector<ComparedRow> rows;           // the largest difference first
  UnitMatch units;
  std::vector<SettingDifference> settings;
  bool work_is_of_gpu = false;     // else operators of the host
  std::vector<ComparedWork> work;  // by name, the largest difference first

  double slower() const { return step.slower(); }
  // Whether it is known that a step of A has more or fewer tokens than one of B.
  bool DiffersInTokens() const;
};

// What the steps of A and B did differently, or took in memory, as texts. In the order of the enum.
enum class DoneFact : uint8_t {
  kForwardLead,  // units that all-gathers are issued ahead
  kBackwardLead,
  kGatheredAgain,  // units, in backward
  kCollectives,    // of a rank a step
  kSentBytes,      // likewise
  kPeakBytes,
  kDriverBytes
};
struct DoneDifference {
  DoneFact fact = DoneFact::kForwardLead;
  std::string a;
  std::string b;
};
std::vector<DoneDifference> DoneDifferences(const Comparison& comparison);

struct ComparedRun {
  const query::Snapshot* snapshot = nullptr;  // with all rows; borrowed
  Scope scope;                                // the steps that are compared
  std::string name;                           // for people
};
Comparison Compare(const ComparedRun& a, const ComparedRun& b);

// `num_rows`: of each list at most so many; 0: all.
std::string PrintComparison(const Comparison& comparison, int num_rows);
std::string PrintComparisonJson(const Comparison& comparison);

}  // namespace shardscope::analysis
