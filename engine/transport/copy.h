// Copying the pieces of a collective.
#pragma once

#include <cstddef>

namespace shardscope::transport {

// From this size on CopyPiece writes past the caches: half of a second-level cache, above which the
// start of a piece would be gone before its end is written.
inline constexpr size_t kStreamedBytes = 512UL << 10;

// As memcpy. A large piece is written past the caches: its lines are not read before they are
// overwritten (a third of the traffic of such a copy), and what other ranks compute with stays in
// the shared cache. On return the bytes are visible to every thread that the caller synchronises
// with. `to` and `from` may not overlap.
void CopyPiece(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace shardscope::transport
