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

// Finds points by time, and the largest total of a range of them, without touching most of them: a
// view of millions of points stays cheap.
class PeakIndex {
 public:
  using Points = std::vector<analysis::MemoryTimeline::Point>;

  // Points before `first_changed` are as at the last call.
  void Update(const Points& points, size_t first_changed);
  // Index of the first of the largest points in [first, last); first < last.
  size_t Largest(const Points& points, size_t first, size_t last) const;
  // Index of the first point with time_ns >= `time_ns`.
  size_t FirstAt(const Points& points, int64_t time_ns) const;

 private:
  static constexpr size_t kChunk = 16;
  struct Chunk {
    int64_t start_ns = 0;
    int64_t largest_total = 0;
    size_t largest = 0;  // index of that point
  };
  std::vector<Chunk> chunks_;  // the last one may be short
};

// A pixel column shows the largest total of the points in it, so that no short peak is lost; a
// column without points shows what was live before. Nothing is drawn after `end_ns`, the end of
// what is known.
MemoryStack MakeStack(const PeakIndex::Points& points, const PeakIndex& peaks,
                      const timeline::Axis& axis, int64_t end_ns);

}  // namespace shardscope::panels
