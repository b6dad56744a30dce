#include "ui/panels/run_control/knob.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::panels {
namespace {

using config::KeyType;
using ui::Text;

// A slider reaches what is useful; the form of a new run takes the whole range of the key.
constexpr double kMaxRunAhead = 8;  // one more position to the right means no limit
constexpr double kMaxLimit = 8;
constexpr double kMaxSlots = 16;

Knob MakeKnob(const config::KeyInfo& key) {
  Knob knob;
  knob.key = &key;
  knob.minimum = key.minimum;
  knob.maximum = key.maximum;
  knob.kind = KnobKind::kSlider;
  switch (key.type) {
    case KeyType::kChoice:
      knob.kind = KnobKind::kSegments;
      knob.values = key.choices;
      break;
    case KeyType::kBool:
      knob.kind = KnobKind::kSegments;
      knob.values = {"true", "false"};
      if (key.maximum > 0) knob.values.insert(knob.values.begin() + 1, "2");
      break;
    case KeyType::kInt:
      knob.whole_numbers = true;
      break;
    case KeyType::kBandwidth:
      knob.minimum = 1e7;
      knob.maximum = 1e10;
      knob.logarithmic = true;
      break;
    case KeyType::kDuration:
      knob.minimum = kNsPerUs;
      knob.maximum = 10.0 * kNsPerMs;
      knob.logarithmic = true;
      break;
    case KeyType::kFloat:
      knob.minimum = 1e-5;
      knob.maximum = 0.1;
      knob.logarithmic = true;
      break;
    case KeyType::kString:
    case KeyType::kBytes:
      knob.kind = KnobKind::kText;
      break;
  }
  if (key.name == "prefetch.backward") std::reverse(knob.values.begin(), knob.values.end());
  if (key.name == "prefetch.limit") knob.maximum = kMaxLimit;
  if (key.name == "engine.compute_slots") knob.maximum = kMaxSlots;
  if (key.unit == "elements") {
    const bool of_one_parameter = key.name == "zero.persistence_threshold";
    knob.minimum = of_one_parameter ? 1 : 1e5;
    knob.maximum = of_one_parameter ? 1e6 : 1e9;
    knob.logarithmic = true;
  }
  if (key.name == "host.run_ahead") {
    knob.minimum = 0;
    knob.maximum = kMaxRunAhead + 1;
  }
  return knob;
}

bool IsIn(KnobSection section, std::string_view name) {
  if (name == "preset") return false;  // chosen at the panel's title
  if (name.substr(0, 5) == "link.") return section == KnobSection::kLink;
  const auto of = [&](std::string_view group) { return name.starts_with(group); };
  const bool sharding = name == "strategy" || name == "reshard_after_forward" ||
                        name == "checkpointing" || name == "offload" || name == "host.run_ahead" ||
                        of("prefetch.") || of("mesh.") || of("unit.") || of("ddp.") ||
                        of("zero.") || of("pipeline.") || of("tensor.");
  return section == (sharding ? KnobSection::kSharding : KnobSection::kTraining);
}

std::vector<Knob> MakeSection(KnobSection section) {
  std::vector<Knob> knobs;
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (key.live && IsIn(section, key.name)) knobs.push_back(MakeKnob(key));
  }
  return knobs;
}

// Two significant digits: what a hand can set on a slider.
double RoundToTwoDigits(double value) {
  if (value <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

// "50.0 µs" -> "50 µs": a value that was set has no digits beyond those that were set.
std::string AsSet(std::string text) {
  const size_t space = text.find(' ');
  const size_t dot = text.find('.');
  if (dot != std::string::npos && space != std::string::npos) {
    size_t end = text.find_last_not_of('0', space - 1) + 1;
    if (end == dot + 1) end = dot;
    text.erase(end, space - end);
  }
  return text;
}

}  // namespace

const std::vector<Knob>& KnobsOf(KnobSection section) {
  static const std::vector<Knob> kSections[] = {MakeSection(KnobSection::kSharding),
                                                MakeSection(KnobSection::kLink),
                                                MakeSection(KnobSection::kTraining)};
  return kSections[static_cast<size_t>(section)];
}

double KnobPosition(const Knob& knob, std::string_view value) {
  switch (knob.key->type) {
    case KeyType::kBandwidth:
      return ParseBandwidth(value).value_or(knob.minimum);
    case KeyType::kDuration:
      return static_cast<double>(ParseDuration(value).value_or(0));
    default:
      break;
  }
  const double number = std::strtod(std::string(value).c_str(), nullptr);
  return knob.key->name == "host.run_ahead" && number < 0 ? knob.maximum : number;
}

std::string KnobValue(const Knob& knob, double position) {
  switch (knob.key->type) {
    case KeyType::kBandwidth:
      return fmt::format("{:.10g}MB/s", RoundToTwoDigits(position) / 1e6);
    case KeyType::kDuration:
      return fmt::format("{:.10g}us", RoundToTwoDigits(position) / static_cast<double>(kNsPerUs));
    case KeyType::kFloat:
      return fmt::format("{:.10g}", RoundToTwoDigits(position));
    default:
      break;
  }
  if (knob.key->name == "host.run_ahead" && position > kMaxRunAhead) return "-1";
  return fmt::format("{:.0f}", knob.logarithmic ? RoundToTwoDigits(position) : position);
}

std::string ShowValue(ui::Language language, const Knob& knob, std::string_view value) {
  const config::KeyInfo& key = *knob.key;
  const bool off_at_zero =
      key.name == "prefetch.limit" || key.name == "prefetch.forward" || key.unit == "elements";
  if (key.type == KeyType::kBool && value == "true") return Tr(language, Text::kOn);
  if (key.type == KeyType::kBool && value == "false") return Tr(language, Text::kOff);
  if (key.name == "strategy") return Upper(value);
  if (value == "none") return Tr(language, Text::kNone);
  if (value == "0" && off_at_zero) return Tr(language, Text::kOff);
  if (key.unit == "elements") {
    return AsSet(FormatCount(std::strtod(std::string(value).c_str(), nullptr)));
  }
  if (value == "0" && key.name == "engine.compute_slots") return Tr(language, Text::kAuto);
  if (value == "-1") return Tr(language, Text::kUnlimited);
  if (key.type == KeyType::kBandwidth) {
    if (const auto rate = ParseBandwidth(value)) return AsSet(FormatBandwidth(*rate));
  }
  if (key.type == KeyType::kDuration) {
    if (const auto duration = ParseDuration(value)) return AsSet(ui::FormatDuration(*duration));
  }
  return std::string(value);
}

std::string ShowChange(const std::string& from, const std::string& to) {
  const size_t from_unit = from.rfind(' ');
  const size_t to_unit = to.rfind(' ');
  const bool same_unit = from_unit != std::string::npos && to_unit != std::string::npos &&
                         from.substr(from_unit) == to.substr(to_unit);
  return (same_unit ? from.substr(0, from_unit) : from) + " → " + to;
}

}  // namespace shardscope::panels
