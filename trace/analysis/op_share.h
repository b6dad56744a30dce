// Which part of a step the time of an op counts to. Internal to analysis.
#pragma once

#include <cstdint>

#include "trace/query/rows.h"

namespace shardscope::analysis {

// The three sums of DESIGN section 7.
enum class OpShare : uint8_t { kNone, kCompute, kCommunication, kCopy };

inline OpShare ShareOf(const query::PlanOp& op) {
  if (op.op_class == query::OpClass::kBookkeeping || op.op_class == query::OpClass::kHost) {
    return OpShare::kNone;
  }
  switch (op.category) {
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

}  // namespace shardscope::analysis
