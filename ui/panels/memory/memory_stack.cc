#include "ui/panels/memory/memory_stack.h"

#include <algorithm>
#include <cmath>

namespace shardscope::panels {
namespace {

using Point = analysis::MemoryTimeline::Point;

// Grows boxes column by column; a category's box ends where one of its edges changes.
class StackBuilder {
 public:
  explicit StackBuilder(MemoryStack* stack) : stack_(stack) {}

  void Column(const Point& point, float x0, float x1) {
    int64_t low = 0;
    for (size_t at = 0; at < kStackOrder.size(); ++at) {
      const int64_t bytes = std::max<int64_t>(point.bytes[static_cast<size_t>(kStackOrder[at])], 0);
      Extend(at, {x0, x1, low, low + bytes, kStackOrder[at]});
      low += bytes;
    }
    stack_->max_bytes = std::max(stack_->max_bytes, low);
  }

  void Finish() {
    for (size_t at = 0; at < open_.size(); ++at) Close(at);
  }

 private:
  void Extend(size_t at, const StackBox& box) {
    StackBox& open = open_[at];
    if (open.x1 == box.x0 && open.low_bytes == box.low_bytes && open.high_bytes == box.high_bytes) {
      open.x1 = box.x1;
      return;
    }
    Close(at);
    open = box;
  }
  void Close(size_t at) {
    if (open_[at].high_bytes > open_[at].low_bytes) stack_->boxes.push_back(open_[at]);
    open_[at] = {};
  }

  MemoryStack* stack_;
  std::array<StackBox, query::kNumMemoryCategories> open_{};
};

}  // namespace

void PeakIndex::Update(const Points& points, size_t first_changed) {
  chunks_.resize(std::min(chunks_.size(), first_changed / kChunk));
  while (chunks_.size() * kChunk < points.size()) {
    const size_t first = chunks_.size() * kChunk;
    const size_t last = std::min(first + kChunk, points.size());
    Chunk chunk{points[first].time_ns, points[first].total, first};
    for (size_t at = first + 1; at < last; ++at) {
      if (points[at].total <= chunk.largest_total) continue;
      chunk.largest_total = points[at].total;
      chunk.largest = at;
    }
    chunks_.push_back(chunk);
  }
}

size_t PeakIndex::Largest(const Points& points, size_t first, size_t last) const {
  size_t largest = first;
  int64_t largest_total = points[first].total;
  for (size_t at = first; at < last;) {
    const bool whole = at % kChunk == 0 && at + kChunk <= last;
    const int64_t total = whole ? chunks_[at / kChunk].largest_total : points[at].total;
    if (total > largest_total) {
      largest_total = total;
      largest = whole ? chunks_[at / kChunk].largest : at;
    }
    at += whole ? kChunk : 1;
  }
  return largest;
}

size_t PeakIndex::FirstAt(const Points& points, int64_t time_ns) const {
  const auto chunk = std::partition_point(
      chunks_.begin(), chunks_.end(),
      [time_ns](const Chunk& candidate) { return candidate.start_ns < time_ns; });
  if (chunk == chunks_.begin()) return 0;
  // It is in the chunk before, or is the first point of this one.
  auto at = static_cast<size_t>(chunk - chunks_.begin() - 1) * kChunk;
  while (at < points.size() && points[at].time_ns < time_ns) ++at;
  return at;
}

MemoryStack MakeStack(const PeakIndex::Points& points, const PeakIndex& peaks,
                      const timeline::Axis& axis, int64_t end_ns) {
  MemoryStack stack;
  StackBuilder builder(&stack);
  const float right = std::min(axis.right(), axis.X(end_ns));
  size_t next = peaks.FirstAt(points, axis.range().start_ns);
  for (float x0 = axis.left(); x0 < right; x0 += 1) {
    const size_t first = next;
    const size_t last = peaks.FirstAt(points, axis.Ns(x0 + 1));
    next = last;
    if (first < last) {
      builder.Column(points[peaks.Largest(points, first, last)], x0, std::min(x0 + 1, right));
    } else if (last > 0) {
      builder.Column(points[last - 1], x0, std::min(x0 + 1, right));
    }
  }
  builder.Finish();
  return stack;
}

}  // namespace shardscope::panels
