// Which part of a step the time of an op, or of work of a GPU, counts to. Internal to analysis.
#pragma once

#include <cstdint>

#include "trace/query/gpu.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {

// The three unions of BusyTimes (steps/time_split.h).
enum class OpShare : uint8_t { kNone, kCompute, kCommunication, kCopy };

inline OpShare ShareOf(query::Category category) {
  switch (category) {
    case query::Category::kCompute:
    case query::Category::kOptimizer:
      return OpShare::kCompute;
    case query::Category::kCommunication:
      return OpShare::kCommunication;
    case query::Category::kCopy:
      return OpShare::kCopy;
    case query::Category::kHost:
      return OpShare::kNone;
  }
  return OpShare::kNone;
}

inline OpShare ShareOf(const query::PlanOp& op) {
  if (op.op_class == query::OpClass::kBookkeeping || op.op_class == query::OpClass::kHost) {
    return OpShare::kNone;
  }
  return ShareOf(op.category);
}

// `op`: that launched it; nullptr: none, so that its name has to tell.
inline OpShare ShareOf(const query::GpuWork& work, const query::PlanOp* op) {
  if (work.kind != query::GpuWorkKind::kKernel) return OpShare::kCopy;
  if (op != nullptr) return ShareOf(op->category);
  switch (work.category) {
    case query::SpanCategory::kCompute:
    case query::SpanCategory::kOptimizer:
      return OpShare::kCompute;
    case query::SpanCategory::kCommunication:
      return OpShare::kCommunication;
    case query::SpanCategory::kCopy:
      return OpShare::kCopy;
    default:
      return OpShare::kNone;
  }
}

}  // namespace shardscope::analysis
