// What the prefetch and limit passes look for in a program: who gathers when, in each forward and
// backward.
#pragma once

#include <vector>

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// One unit in one forward or backward of one micro-batch. Indices are positions in the program.
struct UnitPass {
  int32_t unit = kNone;
  OpIndex first_compute = kNone;  // its own gather, and compute's wait for it, stand before
  OpIndex reshard = kNone;        // kNone if it keeps its parameters
  std::vector<OpIndex> gather;    // cast or copy-in, all-gather; empty if it has its parameters
};

// All units of one forward or backward, in the order of their first compute op.
using PhasePass = std::vector<UnitPass>;

// One entry a micro-batch, in order.
std::vector<PhasePass> FindPhases(const Schedule& schedule, const Program& program, Phase phase);

// Whether the op is part of what gathers a unit's parameters (and may thus be issued early).
bool IsGatherOp(const Schedule& schedule, const Op& op);

}  // namespace shardscope::plan
