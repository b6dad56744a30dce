#include "trace/base/number_list.h"

#include "trace/base/parse_number.h"
#include "trace/base/text.h"

namespace shardscope {

std::string RanksText(const std::vector<int32_t>& ranks) {
  std::vector<std::string> numbers;
  for (const int32_t rank : ranks) numbers.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + Join(numbers, ", ");
}

std::vector<NumberRun> RunsOf(const std::vector<int32_t>& numbers) {
  std::vector<NumberRun> runs;
  for (const int32_t number : numbers) {
    if (runs.empty() || number != runs.back().last + 1) runs.push_back({number, number});
    runs.back().last = number;
  }
  return runs;
}

std::string RunsText(const std::vector<int32_t>& numbers) {
  std::vector<std::string> parts;
  for (const NumberRun& run : RunsOf(numbers)) {
    parts.push_back(std::to_string(run.first));
    if (run.last > run.first) parts.back() += "-" + std::to_string(run.last);
  }
  return Join(parts, ",");
}

std::vector<NumberRun> ParseRuns(std::string_view text) {
  std::vector<NumberRun> runs;
  for (const std::string_view part : Split(text, ',')) {
    const auto ends = Split(part, '-');
    const auto first = ParseInteger<int32_t>(Trim(ends.front()), 0);
    const auto last = ParseInteger<int32_t>(Trim(ends.back()), 0);
    if (ends.size() > 2 || !first || !last || *last < *first) return {};
    runs.push_back({*first, *last});
  }
  return runs;
}

std::optional<std::vector<int32_t>> ParseNumbers(std::string_view text, size_t most) {
  const std::vector<NumberRun> runs = ParseRuns(text);
  if (runs.empty()) return std::nullopt;
  std::vector<int32_t> numbers;
  for (const NumberRun& run : runs) {
    if (!numbers.empty() && run.first <= numbers.back()) return std::nullopt;
    const auto count = static_cast<size_t>(run.last - run.first) + 1;
    if (numbers.size() + count > most) return std::nullopt;
    for (size_t at = 0; at < count; ++at) {
      numbers.push_back(run.first + static_cast<int32_t>(at));
    }
  }
  return numbers;
}

}  // namespace shardscope
