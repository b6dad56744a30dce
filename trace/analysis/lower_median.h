// What ranks mostly are. Internal to analysis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardscope::analysis {

// Of an even number the lower one of the two in the middle: of two ranks the better one is the
// usual. 0 for none.
inline double LowerMedian(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace shardscope::analysis
