// NcclRanges: which calls of NCCL took memory from the driver. Those become ranges of the trace, by
// which what they took is separated from the memory of others, as by NCCL's own ranges in a
// recorded program; all other calls leave nothing.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace shardscope::gpu {

// An interval in which one host thread was in a call of NCCL.
struct NcclRange {
  uint32_t thread = 0;  // gettid
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string name;
};

// One thread.
class NcclRanges {
 public:
  void Add(std::vector<NcclRange> ranges);
  // The driver handed out memory.
  void Took(int64_t time_ns);

  // Ranges in which it did, each once. A range waits a little longer than the fence for what is
  // late.
  std::vector<NcclRange> Take(int64_t fence_ns);

 private:
  std::vector<NcclRange> ranges_;
  std::set<int64_t> taken_ns_;  // the newest: a range is added when it has ended
};

}  // namespace shardscope::gpu
