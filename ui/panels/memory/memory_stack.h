// Stacked memory as boxes in pixels. Logic only; no ImGui.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/analysis/memory.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// From the bottom: what stays, then what comes and goes, and on top what the Schedule does not
// predict.
inline constexpr std::array<query::MemoryCategory, query::kNumMemoryCategories> kStackOrder = {
    query::MemoryCategory::kParameterShard,     query::MemoryCategory::kOptimizer,
    query::MemoryCategory::kGradientShard,      query::MemoryCategory::kOther,
    query::MemoryCategory::kActivation,         query::MemoryCategory::kGradient,
    query::MemoryCategory::kUnshardedParameter, query::MemoryCategory::kCommunicationBuffer,
    query::MemoryCategory::kTemporary,
};

// One category between two changes of its lower or upper edge.
struct StackBox {
  float x0 = 0;
  float x1 = 0;
  int64_t low_bytes = 0;
  int64_t high_bytes = 0;
  query::MemoryCategory category = query::MemoryCategory::kOther;
};

struct MemoryStack {
  std::vector<StackBox> boxes;
  int64_t max_bytes = 0;  // largest total in view
};

// A pixel column shows the largest total of the points in it, so that no short peak is lost; a
// column without points shows what was live before. Nothing is drawn after `end_ns`, the end of
// what is known.
MemoryStack MakeStack(const analysis::MemoryTimeline& memory, const timeline::Axis& axis,
                      int64_t end_ns);

}  // namespace shardscope::panels
