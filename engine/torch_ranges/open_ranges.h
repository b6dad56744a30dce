// OpenRanges: which ranges of PyTorch are open on a thread, and what FSDP's say of an allocation
// that is made meanwhile: unit, phase and, where it can be known, what it is for. No LibTorch.
//
// What is known of FSDP2's ranges (PyTorch 2.11, torch/distributed/fsdp/_fully_shard): each carries
// the name of its unit in parentheses, the root's carries none. A unit's own forward runs between
// its pre_forward and its post_forward, its backward between its pre_backward and its
// post_backward, both without a range of their own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/words.h"

namespace shardscope::torch_ranges {

// Views last until a range begins or ends on the thread.
struct Owner {
  std::string_view range;     // innermost; empty: none is open
  std::string_view unit;      // FSDP's name of it; empty: none, or the root
  std::string_view phase;     // forward, backward or optimizer; empty: not known
  std::string_view category;  // of table memory_event, or kUnattributed
};
using words::kUnattributed;

// Threads: one, whose ranges these are; but any may end one.
class OpenRanges {
 public:
  // Shared with what ends it, which may be another thread.
  struct Range {
    explicit Range(std::string_view text) : name(text) {}
    const std::string name;
    std::atomic<bool> has_ended = false;
  };

  // Of the calling thread. Never destroyed: PyTorch ends ranges and frees memory in destructors of
  // the thread's own objects.
  static OpenRanges& OfThread();

  std::shared_ptr<Range> Begin(std::string_view name);
  // One of this thread's.
  void End(Range* range);
  // One of another thread's: that thread drops it by and by.
  static void EndElsewhere(Range* range) { range->has_ended = true; }

  Owner owner() const;

 private:
  // A unit whose forward or backward runs.
  struct Inside {
    std::string unit;
    bool is_backward = false;
  };
  void Leave(std::string_view unit, bool is_backward);

  std::vector<std::shared_ptr<Range>> open_;  // outermost first
  std::vector<Inside> inside_;                // likewise
};

}  // namespace shardscope::torch_ranges
