// NcclRange: an interval in which one host thread was in a call of NCCL.
#pragma once

#include <cstdint>
#include <string>

namespace shardscope::gpu {

struct NcclRange {
  uint32_t thread = 0;  // gettid
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string name;
};

}  // namespace shardscope::gpu
