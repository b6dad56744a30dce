// Which part of a step the time of an op, or of work of a GPU, counts to. Internal to analysis.
#pragma once

#include "trace/query/gpu.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {

// But for kNone the three unions of BusyTimes (steps/time_split.h).
using words::OpShare;

inline OpShare ShareOf(const query::PlanOp& op) {
  if (op.op_class == query::OpClass::kBookkeeping || op.op_class == query::OpClass::kHost) {
    return OpShare::kNone;
  }
  return TraitsOf(op.category).share;
}

// `op`: that launched it; nullptr: none, so that its name has to tell.
inline OpShare ShareOf(const query::GpuWork& work, const query::PlanOp* op) {
  if (work.kind != query::GpuWorkKind::kKernel) return OpShare::kCopy;
  return op != nullptr ? TraitsOf(op->category).share : TraitsOf(work.category).share;
}

}  // namespace shardscope::analysis
