// How much memory this process has, and can still take.
#pragma once

#include <cstdint>

namespace shardscope {

// What Linux can give without swapping (MemAvailable), and no more than the limit of this control
// group leaves. INT64_MAX: not known.
int64_t FreeMemoryBytes();

// What of its own is in memory (VmRSS). 0: not known.
int64_t OwnMemoryBytes();

// What one may take of what is free, and of its own where `own_goes` for it: not to the last byte,
// as others need some. INT64_MAX: not known.
int64_t MemoryToTake(bool own_goes);

}  // namespace shardscope
