#include "ui/panels/run_control/knob.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/key_choices.h"
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

// How a live key is shown, beyond what its entry in engine/config/keys.cc says.
struct KnobRow {
  std::string_view key;
  std::optional<KnobSection> section = {};  // none: SectionOf()
  std::optional<SliderScale> scale = {};    // none: that of its type or unit, else the key's range
  std::optional<Text> at_zero = {};         // in place of "0"
  bool ends_unlimited = false;              // at the right end, which stands for -1
  bool reversed = false;                    // choices, from the right to the left
};

// Only what is otherwise than of most keys.
constexpr KnobRow kKnobRows[] = {
    {.key = "prefetch.backward", .reversed = true},
    {.key = "prefetch.forward", .at_zero = Text::kOff},
    {.key = "prefetch.limit", .scale = SliderScale{0, 8}, .at_zero = Text::kOff},
    {.key = "host.run_ahead", .scale = SliderScale{0, 9}, .ends_unlimited = true},
    {.key = "unit.policy", .section = KnobSection::kSharding},
    {.key = "zero.persistence_threshold", .scale = kElementsOfParameter},
    {.key = "accumulation", .section = KnobSection::kTraining},
    {.key = "reshard_after_backward", .section = KnobSection::kTraining},
    {.key = "is_last_backward", .section = KnobSection::kTraining},
    {.key = "engine.compute_slots", .scale = SliderScale{0, 16}, .at_zero = Text::kAuto},
};
constexpr KnobRow kPlainRow{};

const KnobRow& KnobRowOf(const config::KeyInfo& key) {
  const auto* row = std::ranges::find(kKnobRows, key.name, &KnobRow::key);
  return row == std::end(kKnobRows) ? kPlainRow : *row;
}

KnobSection SectionOf(const config::KeyInfo& key, const KnobRow& row) {
  if (row.section) return *row.section;
  if (key.name.starts_with("link.")) return KnobSection::kLink;
  return key.shapes_schedule ? KnobSection::kSharding : KnobSection::kTraining;
}

void SetSlider(const SliderScale& scale, Knob* knob) {
  knob->minimum = scale.minimum;
  knob->maximum = scale.maximum;
  knob->logarithmic = scale.logarithmic;
}

Knob MakeKnob(const config::KeyInfo& key, const KnobRow& row) {
  Knob knob;
  knob.key = &key;
  SetSlider({key.minimum, key.maximum}, &knob);
  knob.kind = KnobKind::kSlider;
  switch (key.type) {
    case KeyType::kChoice:
    case KeyType::kBool:
      knob.kind = KnobKind::kSegments;
      knob.values = ui::ChoicesOf(key, {});
      break;
    case KeyType::kInt:
      knob.whole_numbers = true;
      if (key.unit == "elements") {
        SetSlider(kElements, &knob);
        knob.at_zero = Text::kOff;
      }
      break;
    case KeyType::kBandwidth:
      SetSlider({1e7, 1e10, true}, &knob);
      break;
    case KeyType::kDuration:
      SetSlider({kNsPerUs, 10.0 * kNsPerMs, true}, &knob);
      break;
    case KeyType::kFloat:
      SetSlider({1e-5, 0.1, true}, &knob);
      break;
    case KeyType::kString:
    case KeyType::kBytes:
      knob.kind = KnobKind::kText;
      break;
  }
  if (row.reversed) std::ranges::reverse(knob.values);
  if (row.scale) SetSlider(*row.scale, &knob);
  if (row.at_zero) knob.at_zero = row.at_zero;
  knob.ends_unlimited = row.ends_unlimited;
  return knob;
}

// `preset` is in none: it is chosen at the panel's title.
std::vector<Knob> MakeSection(KnobSection section) {
  std::vector<Knob> knobs;
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (!key.live || key.name == "preset") continue;
    const KnobRow& row = KnobRowOf(key);
    if (SectionOf(key, row) == section) knobs.push_back(MakeKnob(key, row));
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
