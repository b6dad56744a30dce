#include "trace/analysis/compare/gate.h"

#include <fmt/format.h>

#include <cmath>

#include "trace/analysis/compare/sentence.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

GateOutcome OutcomeOf(const Gate& gate, double most) {
  if (gate.verdict == ComparisonVerdict::kNotComparable) return GateOutcome::kUnknown;
  const bool is_worse = gate.verdict == ComparisonVerdict::kWorse && gate.slower > most;
  return is_worse ? GateOutcome::kFails : GateOutcome::kPasses;
}

// "B takes 12% less a token (11.7 k -> 13.1 k tokens/s), as steps differ in their tokens".
std::string WhatWasJudged(const Comparison& comparison, const Gate& gate) {
  std::string text =
      fmt::format("B takes {} {} a {}", FormatPercent(std::abs(gate.slower)),
                  gate.slower > 0 ? "more" : "less", gate.is_per_token ? "token" : "step");
  if (gate.is_per_token) {
    text += fmt::format(" ({}), which is judged as steps differ in their tokens",
                        TokenRates(comparison));
  }
  return text;
}

std::string SentenceOfGate(const Comparison& comparison, const Gate& gate, double most) {
  const bool is_measured = comparison.step.a_ns > 0 && comparison.step.b_ns > 0;
  const std::string judged =
      is_measured ? WhatWasJudged(comparison, gate) : std::string("there is nothing to compare");
  const std::string limit = fmt::format("--fail-if-slower {:g}%", most * 100);
  switch (gate.outcome) {
    case GateOutcome::kUnknown:
      return fmt::format("{} cannot be said{}: {}.", limit, is_measured ? " of so few steps" : "",
                         judged);
    case GateOutcome::kFails:
      return fmt::format("{} fails: {}, beyond noise.", limit, judged);
    case GateOutcome::kPasses:
      break;
  }
  const bool is_noise = gate.verdict == ComparisonVerdict::kWithinNoise;
  return fmt::format("{} passes: {}{}.", limit, judged, is_noise ? ", within noise" : "");
}

}  // namespace

Gate GateOf(const Comparison& comparison, double most) {
  Gate gate;
  gate.is_per_token = comparison.DiffersInTokens();
  gate.verdict = comparison.verdict;
  gate.slower = comparison.slower();
  if (gate.is_per_token) {
    const Delta time = TimeOfTokens(comparison.step, comparison.a.step_ns, comparison.b.step_ns,
                                    comparison.a.tokens / comparison.b.tokens);
    gate.verdict = VerdictOf(time);
    gate.slower = time.slower();
  }
  gate.outcome = OutcomeOf(gate, most);
  gate.sentence = SentenceOfGate(comparison, gate, most);
  return gate;
}

}  // namespace shardscope::analysis
