// What the units are worth that numbers are read and written with: durations in ns, sizes in bytes.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace shardscope {

struct UnitFactor {
  std::string_view name;
  double factor = 1;
};

// The largest first.
inline constexpr std::array<UnitFactor, 4> kDurationUnits = {
    {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};
inline constexpr std::array<UnitFactor, 4> kSizeUnits = {
    {{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}};

// nullopt: there is no such unit.
constexpr std::optional<double> FactorOf(std::span<const UnitFactor> units, std::string_view name) {
  const auto found = std::ranges::find(units, name, &UnitFactor::name);
  if (found == units.end()) return std::nullopt;
  return found->factor;
}

}  // namespace shardscope
