// Numbers in the values of keys: all of the text, or nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/config/config.h"

namespace shardscope::config {

std::optional<double> ParseFloat(std::string_view text);       // finite
std::optional<StepWindow> ParseWindow(std::string_view text);  // a:b with 0 <= a < b

}  // namespace shardscope::config
