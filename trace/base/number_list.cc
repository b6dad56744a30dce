#include "trace/base/number_list.h"

#include <utility>

#include "trace/base/text.h"

namespace shardscope {

std::string RanksText(const std::vector<int32_t>& ranks) {
  std::vector<std::string> numbers;
  for (const int32_t rank : ranks) numbers.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + Join(numbers, ", ");
}

std::string RunsText(const std::vector<int32_t>& numbers) {
  std::vector<std::string> runs;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    std::string run = std::to_string(numbers[first]);
    if (last > first) run += "-" + std::to_string(numbers[last]);
    runs.push_back(std::move(run));
    first = last + 1;
  }
  return Join(runs, ",");
}

}  // namespace shardscope
