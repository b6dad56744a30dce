// How large a trace has to be allowed to become.
#pragma once

#include <cstdint>

namespace shardscope {

// The least bound on a trace's bytes on disk (record.max_bytes): batches, log and segments of
// trace/record/size_bound.h must fit.
inline constexpr int64_t kLeastTraceBytes = 4'000'000;

}  // namespace shardscope
