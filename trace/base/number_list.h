// Lists of numbers as text for people: ranks, blocks of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardscope {

// "rank 1", "ranks 0, 2": all of them, in their order.
std::string RanksText(const std::vector<int32_t>& ranks);

// "0-3,5": of ascending numbers, runs of those that follow one another.
std::string RunsText(const std::vector<int32_t>& numbers);

}  // namespace shardscope
