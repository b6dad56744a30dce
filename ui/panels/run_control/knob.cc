#include "ui/panels/run_control/knob.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::panels {
namespace {

using config::KeyType;
using ui::Text;

// Of a slider: it reaches what is useful; the form of a new run takes the whole range of the key.
struct SliderScale {
  double minimum = 0;
  double maximum = 0;
  bool logarithmic = false;
};
constexpr SliderScale kElements{1e5, 1e9, true};
constexpr SliderScale kElementsOfParameter{1, 1e6, true};

// How a live key is shown, beyond what its type says.
struct KnobRow {
  std::string_view key;
  KnobSection section = KnobSection::kTraining;
  std::optional<SliderScale> scale = {};  // none: that of its type, else the range of the key
  std::optional<Text> at_zero = {};       // in place of "0"
  bool ends_unlimited = false;            // at the right end, which stands for -1
  bool reversed = false;                  // choices, from the right to the left
};

// One row a live key. `preset` has none: it is chosen at the panel's title.
constexpr KnobRow kKnobRows[] = {
    {.key = "strategy", .section = KnobSection::kSharding},
    {.key = "mesh.replicate", .section = KnobSection::kSharding},
    {.key = "mesh.shard", .section = KnobSection::kSharding},
    {.key = "mesh.pipeline", .section = KnobSection::kSharding},
    {.key = "mesh.tensor", .section = KnobSection::kSharding},
    {.key = "tensor.sequence_parallel", .section = KnobSection::kSharding},
    {.key = "tensor.async", .section = KnobSection::kSharding},
    {.key = "pipeline.schedule", .section = KnobSection::kSharding},
    {.key = "pipeline.chunks", .section = KnobSection::kSharding},
    {.key = "reshard_after_forward", .section = KnobSection::kSharding},
    {.key = "prefetch.backward", .section = KnobSection::kSharding, .reversed = true},
    {.key = "prefetch.backward_depth", .section = KnobSection::kSharding},
    {.key = "prefetch.forward", .section = KnobSection::kSharding, .at_zero = Text::kOff},
    {.key = "prefetch.forward_list", .section = KnobSection::kSharding},
    {.key = "prefetch.backward_list", .section = KnobSection::kSharding},
    {.key = "prefetch.limit",
     .section = KnobSection::kSharding,
     .scale = SliderScale{0, 8},
     .at_zero = Text::kOff},
    {.key = "host.run_ahead",
     .section = KnobSection::kSharding,
     .scale = SliderScale{0, 9},
     .ends_unlimited = true},
    {.key = "unit.policy", .section = KnobSection::kSharding},
    {.key = "unit.root", .section = KnobSection::kSharding},
    {.key = "checkpointing", .section = KnobSection::kSharding},
    {.key = "offload", .section = KnobSection::kSharding},
    {.key = "ddp.bucket_cap", .section = KnobSection::kSharding},
    {.key = "zero.reduce_bucket_size",
     .section = KnobSection::kSharding,
     .scale = kElements,
     .at_zero = Text::kOff},
    {.key = "zero.overlap_comm", .section = KnobSection::kSharding},
    {.key = "zero.prefetch_bucket_size",
     .section = KnobSection::kSharding,
     .scale = kElements,
     .at_zero = Text::kOff},
    {.key = "zero.max_live_parameters",
     .section = KnobSection::kSharding,
     .scale = kElements,
     .at_zero = Text::kOff},
    {.key = "zero.max_reuse_distance",
     .section = KnobSection::kSharding,
     .scale = kElements,
     .at_zero = Text::kOff},
    {.key = "zero.persistence_threshold",
     .section = KnobSection::kSharding,
     .scale = kElementsOfParameter,
     .at_zero = Text::kOff},
    {.key = "link.host.bandwidth", .section = KnobSection::kLink},
    {.key = "link.host.latency", .section = KnobSection::kLink},
    {.key = "link.bandwidth", .section = KnobSection::kLink},
    {.key = "link.latency", .section = KnobSection::kLink},
    {.key = "schedule.file", .section = KnobSection::kTraining},
    {.key = "accumulation", .section = KnobSection::kTraining},
    {.key = "reshard_after_backward", .section = KnobSection::kTraining},
    {.key = "is_last_backward", .section = KnobSection::kTraining},
    {.key = "train.lr", .section = KnobSection::kTraining},
    {.key = "engine.compute_slots",
     .section = KnobSection::kTraining,
     .scale = SliderScale{0, 16},
     .at_zero = Text::kAuto},
    {.key = "record.steps", .section = KnobSection::kTraining},
    {.key = "checkpoint.every", .section = KnobSection::kTraining},
    {.key = "checkpoint.keep", .section = KnobSection::kTraining},
    {.key = "fault.delay", .section = KnobSection::kTraining},
    {.key = "fault.jitter", .section = KnobSection::kTraining},
};
// All links of a dimension of the mesh.
constexpr KnobRow kRowOfWires{.key = "link.", .section = KnobSection::kLink};

// Null: none.
const KnobRow* KnobRowOf(std::string_view key) {
  if (config::DimensionOfLink(key)) return &kRowOfWires;
  const auto* row = std::ranges::find(kKnobRows, key, &KnobRow::key);
  return row == std::end(kKnobRows) ? nullptr : row;
}

Knob MakeKnob(const config::KeyInfo& key, const KnobRow& row) {
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
  if (row.reversed) std::ranges::reverse(knob.values);
  if (row.scale) {
    knob.minimum = row.scale->minimum;
    knob.maximum = row.scale->maximum;
    knob.logarithmic = row.scale->logarithmic;
  }
  knob.at_zero = row.at_zero;
  knob.ends_unlimited = row.ends_unlimited;
  return knob;
}

std::vector<Knob> MakeSection(KnobSection section) {
  std::vector<Knob> knobs;
  for (const config::KeyInfo& key : config::AllKeys()) {
    const KnobRow* row = key.live ? KnobRowOf(key.name) : nullptr;
    if (row != nullptr && row->section == section) knobs.push_back(MakeKnob(key, *row));
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
  return knob.ends_unlimited && number < 0 ? knob.maximum : number;
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
  if (knob.ends_unlimited && position > knob.maximum - 1) return "-1";
  return fmt::format("{:.0f}", knob.logarithmic ? RoundToTwoDigits(position) : position);
}

std::string ShowValue(ui::Language language, const Knob& knob, std::string_view value) {
  const config::KeyInfo& key = *knob.key;
  if (key.type == KeyType::kBool && value == "true") return Tr(language, Text::kOn);
  if (key.type == KeyType::kBool && value == "false") return Tr(language, Text::kOff);
  if (key.name == "strategy") return Upper(value);
  if (value == "none") return Tr(language, Text::kNone);
  if (value == "0" && knob.at_zero) return Tr(language, *knob.at_zero);
  if (key.unit == "elements") {
    return AsSet(FormatCount(std::strtod(std::string(value).c_str(), nullptr)));
  }
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
