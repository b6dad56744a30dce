// The calling thread's OpenRanges.
#pragma once

#include "engine/torch_ranges/open_ranges.h"

namespace shardscope::torch_ranges {

// Never destroyed: PyTorch ends ranges and frees memory in destructors of the thread's own objects.
OpenRanges& MyRanges();

}  // namespace shardscope::torch_ranges
