#include "trace/analysis/compare/sentence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kNamedUnits = 3;
constexpr size_t kNamedSettings = 3;  // more of them are no short reason
constexpr size_t kLongSetting = 40;   // characters
// What makes less than this share of the difference is not named.
constexpr double kLeastCause = 0.2;

std::string Of(double ns) { return FormatDuration(static_cast<int64_t>(std::abs(ns))); }

// All rows that differ in nothing but their unit.
struct Cause {
  RowKey key;  // without a unit
  double ns = 0;
  std::vector<const ComparedRow*> rows;  // the largest first
};

std::optional<Cause> LargestCause(const Comparison& comparison) {
  std::map<std::tuple<StepPart, std::string, std::string>, Cause> causes;
  const bool slower = comparison.step.ns() > 0;
  for (const ComparedRow& row : comparison.rows) {
    if ((row.on_path.ns() > 0) != slower) continue;
    Cause& cause = causes[{row.key.part, row.key.kind, row.key.phase}];
    cause.key = row.key;
    cause.ns += row.on_path.ns();
    cause.rows.push_back(&row);
  }
  std::optional<Cause> largest;
  for (auto& [key, cause] : causes) {
    if (!largest || std::abs(cause.ns) > std::abs(largest->ns)) largest = std::move(cause);
  }
  return largest;
}

// "all_gather": "all-gathers"
std::string Plural(std::string kind) {
  std::ranges::replace(kind, '_', '-');
  return kind + (kind.ends_with('s') || kind.ends_with("ward") ? "" : "s");
}

std::string WhatOf(const Cause& cause) {
  std::vector<std::string> units;
  for (const ComparedRow* row : cause.rows) {
    if (row->key.unit.empty() || units.size() == kNamedUnits) continue;
    units.push_back(row->key.unit);
  }
  std::string of_units = units.empty() ? "" : " of " + Join(units, ", ");
  if (cause.rows.size() > kNamedUnits && !units.empty())
    of_units += fmt::format(" and {} more", cause.rows.size() - units.size());
  const std::string phase =
      cause.key.phase.empty() || cause.key.phase == cause.key.kind ? "" : " in " + cause.key.phase;
  switch (cause.key.part) {
    case StepPart::kExposed:
      return fmt::format("exposed {}{}{}", Plural(cause.key.kind), of_units, phase);
    case StepPart::kExposedCopy:
      return fmt::format("exposed {}{}{}", Plural(cause.key.kind), of_units, phase);
    case StepPart::kCompute:
      return fmt::format("{} compute{}", cause.key.phase.empty() ? cause.key.kind : cause.key.phase,
                         of_units);
    case StepPart::kIdle:
      break;
  }
  if (cause.key.kind.empty()) return "idle time at the end of the step";
  return fmt::format("idle time before {}{}{}", Plural(cause.key.kind), of_units, phase);
}

// What is done or set up differently, where that can be said shortly.
std::string OtherwiseIn(const Comparison& comparison) {
  const ScheduleFacts& a = comparison.a.schedule;
  const ScheduleFacts& b = comparison.b.schedule;
  std::vector<std::string> texts;
  const auto add_lead = [&texts](const char* phase, const std::optional<int>& in_a,
                                 const std::optional<int>& in_b) {
    if (!in_a || !in_b || *in_a == *in_b) return;
    texts.push_back(fmt::format("all-gathers of {} are issued {} ahead in A and {} in B", phase,
                                *in_a == 1 ? std::string("1 unit") : fmt::format("{} units", *in_a),
                                *in_b));
  };
  add_lead("forward", a.forward_lead, b.forward_lead);
  add_lead("backward", a.backward_lead, b.backward_lead);
  if (a.gathered_units > 0 && b.gathered_units > 0 &&
      (a.gathered_again > 0) != (b.gathered_again > 0)) {
    texts.push_back(
        fmt::format("only {} gathers units again in backward", a.gathered_again > 0 ? "A" : "B"));
  }
  if (texts.empty() && comparison.settings.size() <= kNamedSettings) {
    for (const SettingDifference& setting : comparison.settings) {
      if (setting.a.size() + setting.b.size() > kLongSetting) continue;
      texts.push_back(fmt::format("{} is {} in A and {} in B", setting.key,
                                  setting.a.empty() ? "not set" : setting.a,
                                  setting.b.empty() ? "not set" : setting.b));
    }
  }
  return Join(texts, ", ");
}

}  // namespace

std::string SentenceOf(const Comparison& comparison) {
  const Delta& step = comparison.step;
  const std::string times = fmt::format("{} -> {}", Of(step.a_ns), Of(step.b_ns));
  const char* const direction = step.ns() > 0 ? "slower" : "faster";
  const std::string share = FormatPercent(std::abs(comparison.slower()));
  const std::string otherwise = OtherwiseIn(comparison);
  if (comparison.verdict == ComparisonVerdict::kNotComparable) {
    return fmt::format(
        "B is {} {} a step ({}), but {} and {} steps say nothing of noise: compare {} or more.",
        share, direction, times, comparison.a.num_steps, comparison.b.num_steps, kLeastNoiseSteps);
  }
  if (comparison.verdict == ComparisonVerdict::kWithinNoise) {
    return fmt::format("A and B take as long, within noise ({} a step){}.", times,
                       otherwise.empty() ? "" : "; " + otherwise);
  }
  std::string sentence = fmt::format("B is {} {} a step ({})", share, direction, times);
  const std::string end = otherwise.empty() ? "." : "; " + otherwise + ".";
  const std::optional<Cause> cause = LargestCause(comparison);
  if (!cause || std::abs(cause->ns) < kLeastCause * std::abs(step.ns())) return sentence + end;
  // What else differs may be of the other sign: then one cause is more than all.
  const std::string of_what =
      std::abs(cause->ns) > std::abs(step.ns())
          ? fmt::format("{} {}", Of(cause->ns), step.ns() > 0 ? "more" : "less")
          : fmt::format("{} of the {}", Of(cause->ns), Of(step.ns()));
  return fmt::format("{}: {} is {}{}", sentence, of_what, WhatOf(*cause), end);
}

}  // namespace shardscope::analysis
