#include "trace/record/gpu/nccl_ranges.h"

#include <iterator>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::gpu {
namespace {

constexpr int64_t kPatienceNs = 2 * kNsPerSecond;
// Memory is handed out rarely: a caching allocator asks for large pieces, and keeps them.
constexpr size_t kMostTimes = 1 << 14;

}  // namespace

void NcclRanges::Add(std::vector<NcclRange> ranges) {
  ranges_.insert(ranges_.end(), std::make_move_iterator(ranges.begin()),
                 std::make_move_iterator(ranges.end()));
}

void NcclRanges::Took(int64_t time_ns) {
  taken_ns_.insert(time_ns);
  if (taken_ns_.size() > kMostTimes) taken_ns_.erase(taken_ns_.begin());
}

std::vector<NcclRange> NcclRanges::Take(int64_t fence_ns) {
  std::vector<NcclRange> with_memory;
  std::erase_if(ranges_, [&](NcclRange& range) {
    const auto taken = taken_ns_.lower_bound(range.start_ns);
    if (taken == taken_ns_.end() || *taken > range.end_ns) {
      return range.end_ns < fence_ns && fence_ns - range.end_ns > kPatienceNs;
    }
    with_memory.push_back(std::move(range));
    return true;
  });
  return with_memory;
}

}  // namespace shardscope::gpu
