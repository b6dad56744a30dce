// Events of PyTorch's CUDA caching allocator, as it tells them to whoever attaches to it. Nothing
// of CUDA is linked: without it, in a PyTorch for the CPU, there is nothing to attach to.
#pragma once

#include <string>

#include "trace/record/inject/allocator/allocator_event.h"

namespace shardscope::torch_ranges {

// Once, after PyTorch has initialised CUDA (before, the allocator forgets who attached). What is
// known of the calling thread's ranges goes with every event. Empty: attached; else why not.
std::string AttachToAllocator(ShardscopeAllocatorSink sink);

}  // namespace shardscope::torch_ranges
