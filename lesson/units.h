// Units of the numbers in lessons: how a number is written, and what an answer in another unit is
// in this one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardscope::lesson {

// "MB", "GiB", "ms", "GB/s", "%", "x", or "" of what is counted.
bool IsUnit(std::string_view unit);
std::string UnitNames();  // "B, kB, ..."

// "436 MB", "1.06 ms", "12", "1,024": three significant digits, or all before the point.
std::string NumberText(double value, std::string_view unit);

// "0.436 GB" in MB is 436; a number alone is in `unit`. None: it is no number, or of another kind.
std::optional<double> ParseNumber(std::string_view text, std::string_view unit);

}  // namespace shardscope::lesson
