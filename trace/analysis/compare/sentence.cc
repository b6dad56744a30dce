#include "trace/analysis/compare/sentence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kNamedUnits = 3;
constexpr size_t kNamedSettings = 3;
constexpr size_t kLongSetting = 40;  // characters
// What makes less than this share of the difference is not named.
constexpr double kLeastCause = 0.2;

std::string Of(double ns, const SentenceSigns& signs) {
  return signs.duration(std::llround(std::abs(ns)));
}

// All rows that differ in nothing but their unit.
struct Cause {
  RowKey key;                            // without a unit
  double ns = 0;                         // of the rows
  std::vector<const ComparedRow*> rows;  // of one sign, the largest first
};

// Of one part, and of the sign of the whole difference.
std::optional<Cause> LargestCause(const Comparison& comparison, StepPart part) {
  std::map<std::pair<std::string, std::string>, Cause> causes;
  const double sign = comparison.step.ns() > 0 ? 1 : -1;
  for (const ComparedRow& row : comparison.rows) {
    if (row.key.part != part || row.on_path.ns() * sign <= 0) continue;
    Cause& cause = causes[{row.key.kind, row.key.phase}];
    cause.key = row.key;
    cause.ns += row.on_path.ns();
    cause.rows.push_back(&row);
  }
  std::optional<Cause> largest;
  for (auto& [key, cause] : causes) {
    if (cause.ns * sign > (largest ? largest->ns * sign : 0)) largest = std::move(cause);
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
      if (cause.key.kind == Name(words::OpKind::kRecompute)) return "recomputation" + of_units;
      return fmt::format("{} compute{}", cause.key.phase.empty() ? cause.key.kind : cause.key.phase,
                         of_units);
    case StepPart::kIdle:
      break;
  }
  if (cause.key.kind.empty()) return "idle time at the end of the step";
  return fmt::format("idle time before {}{}{}", Plural(cause.key.kind), of_units, phase);
}

// What a reader asks for first is 0; the machine and the tool come last.
int ImportanceOf(const std::string& key) {
  static constexpr std::array<std::string_view, 5> kLast = {"truth", trace_keys::kContended, "host",
                                                            trace_keys::kNumCores, "tool_version"};
  if (key == trace_keys::kNumRanks) return 0;
  if (key == "strategy") return 1;
  return std::ranges::find(kLast, key) == kLast.end() ? 2 : 3;
}

// The most important ones first. `has_leads`: what prefetching does is said already.
void AddSettings(const Comparison& comparison, bool has_leads, Otherwise* otherwise) {
  std::vector<const SettingDifference*> settings;
  const bool has_ranks = std::ranges::any_of(comparison.settings, [](const SettingDifference& one) {
    return one.key == trace_keys::kNumRanks;
  });
  for (const SettingDifference& setting : comparison.settings) {
    const bool is_said = (has_leads && setting.key.starts_with("prefetch.")) ||
                         (has_ranks && setting.key == "run.ranks");
    if (!is_said) settings.push_back(&setting);
  }
  std::ranges::stable_sort(settings, {}, [](const auto* one) { return ImportanceOf(one->key); });
  for (const SettingDifference* setting : settings) {
    const bool is_long = setting->a.size() + setting->b.size() > kLongSetting;
    if (otherwise->settings.size() == kNamedSettings || is_long) {
      ++otherwise->num_others;
    } else {
      otherwise->settings.push_back(setting);
    }
  }
}

std::string OtherwiseIn(const Comparison& comparison) {
  const Otherwise otherwise = OtherwiseOf(comparison);
  std::vector<std::string> texts;
  const auto add_lead = [&texts](const char* phase, const std::optional<Otherwise::Lead>& lead) {
    if (!lead) return;
    texts.push_back(fmt::format(
        "all-gathers of {} are issued {} ahead in A and {} in B", phase,
        lead->a == 1 ? std::string("1 unit") : fmt::format("{} units", lead->a), lead->b));
  };
  add_lead("forward", otherwise.forward);
  add_lead("backward", otherwise.backward);
  if (!otherwise.gathers_again.empty()) {
    texts.push_back(
        fmt::format("only {} gathers units again in backward", otherwise.gathers_again));
  }
  for (const SettingDifference* setting : otherwise.settings) {
    texts.push_back(fmt::format("{} is {} in A and {} in B", setting->key,
                                setting->a.empty() ? "not set" : setting->a,
                                setting->b.empty() ? "not set" : setting->b));
  }
  const size_t others = otherwise.num_others;
  if (others > 0 && texts.empty()) {
    texts.push_back(others == 1 ? "1 setting differs" : fmt::format("{} settings differ", others));
  } else if (others > 0) {
    texts.push_back(fmt::format("and {} {}", others, others == 1 ? "other" : "others"));
  }
  return Join(texts, ", ");
}

// ": 90 ms of the 120 ms is exposed communication, 70 ms of it exposed all-gathers of block0".
std::string MostOf(const Comparison& comparison, const SentenceSigns& signs) {
  const double step_ns = comparison.step.ns();
  const StepPart part = LargestPart(comparison);
  const double part_ns = comparison.parts[static_cast<size_t>(part)].ns();
  if (std::abs(part_ns) < kLeastCause * std::abs(step_ns)) return "";
  const char* const more = step_ns > 0 ? "more" : "less";
  // What else differs may be of the other sign: then one part is more than all.
  std::string text =
      std::abs(part_ns) > std::abs(step_ns)
          ? fmt::format(": {} {} {}", Of(part_ns, signs), more, Name(part))
          : fmt::format(": {} of the {} is {}", Of(part_ns, signs), Of(step_ns, signs), Name(part));
  const std::optional<Cause> cause = LargestCause(comparison, part);
  if (!cause || std::abs(cause->ns) < kLeastCause * std::abs(step_ns)) return text;
  // Likewise of a cause within its part.
  text += std::abs(cause->ns) > std::abs(part_ns)
              ? fmt::format(", {} {} in {}", Of(cause->ns, signs), more, WhatOf(*cause))
              : fmt::format(", {} of it {}", Of(cause->ns, signs), WhatOf(*cause));
  return text;
}

}  // namespace

Otherwise OtherwiseOf(const Comparison& comparison) {
  const ScheduleFacts& a = comparison.a.schedule;
  const ScheduleFacts& b = comparison.b.schedule;
  const auto lead_of = [](const std::optional<int>& in_a, const std::optional<int>& in_b) {
    const bool differs = in_a && in_b && *in_a != *in_b;
    return differs ? std::optional(Otherwise::Lead{*in_a, *in_b}) : std::nullopt;
  };
  Otherwise otherwise{.forward = lead_of(a.forward_lead, b.forward_lead),
                      .backward = lead_of(a.backward_lead, b.backward_lead)};
  if (a.gathered_units > 0 && b.gathered_units > 0 &&
      (a.gathered_again > 0) != (b.gathered_again > 0)) {
    otherwise.gathers_again = a.gathered_again > 0 ? "A" : "B";
  }
  AddSettings(comparison, otherwise.forward || otherwise.backward, &otherwise);
  return otherwise;
}

StepPart LargestPart(const Comparison& comparison) {
  const double sign = comparison.step.ns() > 0 ? 1 : -1;
  const auto largest = std::ranges::max_element(
      comparison.parts, {}, [sign](const Delta& part) { return part.ns() * sign; });
  return static_cast<StepPart>(largest - comparison.parts.begin());
}

std::string TokensIn(const Comparison& comparison, const SentenceSigns& signs) {
  if (!comparison.DiffersInTokens()) return "";
  return fmt::format(", {} {} {} tokens, {}", FormatCount(comparison.a.tokens), signs.arrow,
                     FormatCount(comparison.b.tokens), TokenRates(comparison, signs));
}

std::string TokenRates(const Comparison& comparison, const SentenceSigns& signs) {
  const Delta& step = comparison.step;
  return fmt::format("{} {} {} tokens/s",
                     FormatCount(TokensPerSecond(comparison.a.tokens, step.a_ns)), signs.arrow,
                     FormatCount(TokensPerSecond(comparison.b.tokens, step.b_ns)));
}

std::string SentenceOf(const Comparison& comparison, const SentenceSigns& signs) {
  const Delta& step = comparison.step;
  const std::string times =
      fmt::format("{} {} {}", Of(step.a_ns, signs), signs.arrow, Of(step.b_ns, signs));
  const std::string tokens = TokensIn(comparison, signs);
  const char* const direction = step.ns() > 0 ? "slower" : "faster";
  const std::string share = FormatPercent(std::abs(comparison.slower()));
  const std::string otherwise = OtherwiseIn(comparison);
  if (comparison.verdict == ComparisonVerdict::kNotComparable) {
    return fmt::format(
        "B is {} {} a step ({}{}), but {} and {} steps say nothing of noise: compare {} or more.",
        share, direction, times, tokens, comparison.a.num_steps, comparison.b.num_steps,
        kLeastNoiseSteps);
  }
  if (comparison.verdict == ComparisonVerdict::kWithinNoise) {
    return fmt::format("A and B take as long, within noise ({} a step{}){}.", times, tokens,
                       otherwise.empty() ? "" : "; " + otherwise);
  }
  return fmt::format("B is {} {} a step ({}{}){}{}.", share, direction, times, tokens,
                     MostOf(comparison, signs), otherwise.empty() ? "" : "; " + otherwise);
}

}  // namespace shardscope::analysis
