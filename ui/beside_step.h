// BesideStep: a step of B, the run that the open one (A) is compared with, to be drawn under A's
// lanes. Pure functions; they look at all ops of a step: not in a frame.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/comparison.h"
#include "ui/context.h"

namespace shardscope::ui {

// Times are from the first rank's start of B's step.
struct BesideOp {
  query::TrackRole role = query::TrackRole::kHost;  // of the stream that it ran on
  query::OpClass op_class = query::OpClass::kHost;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
};

// The selected op of A and the same one of B.
struct BesideMatch {
  int64_t a_ns = 0;  // how long they took
  int64_t b_ns = 0;
  int64_t later_ns = 0;  // by which B's began later, each from the start of its step
};

struct BesideStep {
  int32_t step_a = -1;   // -1: no step of A is finished on all ranks
  int32_t step_b = -1;   // -1: B has no step beside it
  int64_t start_ns = 0;  // of the step of A, on its first rank
  int64_t a_ns = 0;      // from the first rank's start to the last one's end
  int64_t b_ns = 0;
  std::map<int32_t, std::vector<BesideOp>> ranks;  // by rank of both, each by start
  int num_missing_ranks = 0;                       // of B, which A does not have
  bool has_selected = false;                       // an op of A's step is selected
  std::optional<BesideMatch> match;                // of that; none: it is not in B

  // Where B's step begins among the times of A: with it, or so that both ops begin at once.
  int64_t shown_at_ns() const { return start_ns - (match ? match->later_ns : 0); }
};

// Beside a step of A that all ranks have finished, else the newest such: the step of B with the
// same number, else its newest; where ranges of steps are compared the one at the same place in
// them. `selected`: of which the same op of B, by kind, phase, micro-batch and unit, comes to stand
// under it.
std::shared_ptr<const BesideStep> StepBeside(const query::Snapshot& a, const Compared& compared,
                                             int32_t step,
                                             const std::optional<SelectedOp>& selected);

}  // namespace shardscope::ui
