// What the system says about this process's memory.
#pragma once

#include <cstdint>

namespace shardscope::runtime {

// Bytes in physical memory now (/proc/self/statm); -1 if the system does not say.
int64_t ResidentBytes();

}  // namespace shardscope::runtime
