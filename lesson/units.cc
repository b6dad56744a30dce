#include "lesson/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/unit_factors.h"

namespace shardscope::lesson {
namespace {

enum class UnitKind { kCount, kBytes, kTime, kRate, kShare, kFactor };

struct Unit {
  std::string_view name;
  UnitKind kind;
  double factor;
};

constexpr Unit Size(std::string_view name) {
  return {name, UnitKind::kBytes, *FactorOf(kSizeUnits, name)};
}
constexpr Unit Time(std::string_view name) {
  return {name, UnitKind::kTime, *FactorOf(kDurationUnits, name)};
}
constexpr Unit Rate(std::string_view name) {
  return {name, UnitKind::kRate, *FactorOf(kSizeUnits, name.substr(0, name.find('/')))};
}

constexpr double kKibi = 1024;
constexpr Unit kUnits[] = {
    {"", UnitKind::kCount, 1},
    {"M", UnitKind::kCount, 1e6},
    Size("B"),
    Size("kB"),
    Size("MB"),
    Size("GB"),
    {"KiB", UnitKind::kBytes, kKibi},
    {"MiB", UnitKind::kBytes, kKibi* kKibi},
    {"GiB", UnitKind::kBytes, kKibi* kKibi* kKibi},
    Time("us"),
    Time("ms"),
    Time("s"),
    Rate("MB/s"),
    Rate("GB/s"),
    {"%", UnitKind::kShare, 1},
    {"x", UnitKind::kFactor, 1},
};

const Unit* FindUnit(std::string_view name) {
  const auto* const found = std::ranges::find(kUnits, name, &Unit::name);
  return found == std::end(kUnits) ? nullptr : found;
}

}  // namespace

bool IsUnit(std::string_view unit) { return FindUnit(unit) != nullptr; }

std::string UnitNames() {
  std::vector<std::string> names;
  for (const Unit& unit : kUnits) {
    if (!unit.name.empty()) names.emplace_back(unit.name);
  }
  return Join(names, ", ");
}

std::string NumberText(double value, std::string_view unit) {
  const double size = std::abs(value);
  std::string text;
  if (size >= 100 || value == std::round(value)) {
    text = fmt::format("{:.0f}", value);
    const size_t first = value < 0 ? 1 : 0;
    for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  } else {
    text = fmt::format("{:.{}f}", value, size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
  }
  if (unit.empty()) return text;
  return text + (unit == "%" || unit == "x" ? "" : " ") + std::string(unit);
}

std::optional<double> ParseNumber(std::string_view text, std::string_view unit) {
  std::string plain;
  for (const char c : Trim(text)) {
    if (c != ',') plain += c;
  }
  double value = 0;
  const char* const end = plain.data() + plain.size();
  const auto [last, error] = std::from_chars(plain.data(), end, value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string_view given = Trim(std::string_view(last, static_cast<size_t>(end - last)));
  if (given.empty()) return value;
  const Unit* const from = FindUnit(given);
  const Unit* const to = FindUnit(unit);
  if (from == nullptr || to == nullptr || from->kind != to->kind) return std::nullopt;
  return value * from->factor / to->factor;
}

}  // namespace shardscope::lesson
