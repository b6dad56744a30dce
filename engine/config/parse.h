// Numbers in the values of keys: read from all of the text, or nothing; written; how large they
// are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/config/config.h"

namespace shardscope::config {

// The most of run.ranks, and so of what is said of ranks.
inline constexpr int64_t kMostRanks = 64;

std::optional<double> ParseFloat(std::string_view text);       // finite
std::optional<StepWindow> ParseWindow(std::string_view text);  // a:b with 0 <= a < b

// "4MB": in the largest unit that keeps the number at least 1; "0".
std::string SizeText(double bytes);

}  // namespace shardscope::config
