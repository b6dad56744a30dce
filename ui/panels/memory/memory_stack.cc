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

MemoryStack MakeStack(const analysis::MemoryTimeline& memory, const timeline::Axis& axis,
                      int64_t end_ns) {
  MemoryStack stack;
  StackBuilder builder(&stack);
  const float right = std::min(axis.right(), axis.X(end_ns));
  size_t next = memory.FirstAt(axis.range().start_ns);
  for (float x0 = axis.left(); x0 < right; x0 += 1) {
    const size_t first = next;
    const size_t last = memory.FirstAt(axis.Ns(x0 + 1), first);
    next = last;
    if (first < last) {
      builder.Column(memory.At(memory.Largest(first, last)), x0, std::min(x0 + 1, right));
    } else if (last > 0) {
      builder.Column(memory.At(last - 1), x0, std::min(x0 + 1, right));
    }
  }
  builder.Finish();
  return stack;
}

}  // namespace shardscope::panels
