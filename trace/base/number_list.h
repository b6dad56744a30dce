// Lists of numbers as text that people read and write: ranks, blocks of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

// "rank 1", "ranks 0, 2": all of them, in their order.
std::string RanksText(const std::vector<int32_t>& ranks);

struct NumberRun {
  int32_t first = 0;
  int32_t last = 0;  // belongs to it
};

// Of ascending numbers, runs of those that follow one another.
std::vector<NumberRun> RunsOf(const std::vector<int32_t>& numbers);

// "0-3,5": of ascending numbers, runs of those that follow one another.
std::string RunsText(const std::vector<int32_t>& numbers);

// "3,0-5": runs of numbers from 0 on in any order, spaces around a number or none; empty if it is
// not of that form.
std::vector<NumberRun> ParseRuns(std::string_view text);

// The numbers of runs that ascend; nullopt if they do not, or are more than `most`.
std::optional<std::vector<int32_t>> ParseNumbers(std::string_view text, size_t most);

}  // namespace shardscope
