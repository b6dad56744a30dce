// What tests ask of tensor_memory.cc and the product does not. MemoryPools know what ranks hold;
// that nothing of a run lies outside them can only be seen where all tensors are allocated.
#pragma once

#include <cstdint>

namespace shardscope::runtime {

// Bytes of the tensors of this process that were made outside any TensorScope.
int64_t UnscopedTensorBytes();

}  // namespace shardscope::runtime
