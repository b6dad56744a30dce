// TemporaryMemory: what LibTorch allocates inside one op and gives back before it ends, measured by
// counting at LibTorch's CPU allocator.
//
// Only the op's highest point is kept: a trace with every temporary would be larger than useful.
#pragma once

#include <cstdint>

namespace shardscope::runtime {

// From construction to Finish(), on one thread. Do not nest.
class TemporaryMemory {
 public:
  TemporaryMemory();

  // Bytes at the highest point, beyond what is still held now.
  int64_t Finish() const;

  // Puts a counting allocator in the place of LibTorch's own, once per process. Without it all
  // measurements are zero.
  static void Install();
};

}  // namespace shardscope::runtime
