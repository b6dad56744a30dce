// The next multiple of a size: alignments, pages, blocks.
#pragma once

#include <concepts>

namespace shardscope {

// The smallest multiple of `multiple` (above 0) that is not below `value` (0 or more).
template <std::integral Integer>
constexpr Integer RoundUp(Integer value, Integer multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace shardscope
