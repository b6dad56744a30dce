// Events of a caching allocator, told by a library beside this one (engine/torch_ranges), into the
// recording of this process.
#pragma once

#include "trace/record/inject/allocator/allocator_event.h"

namespace shardscope::inject {

// Any thread, under the allocator's own lock: waits for nobody but other callers.
void AddAllocatorEvent(const ShardscopeAllocatorEvent& event);

}  // namespace shardscope::inject
