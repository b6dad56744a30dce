#include "trace/store/merge/clock_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace shardscope::store {
namespace {

// Values below 16 are counted one by one; then 16 steps an octave.
size_t StepOf(int64_t value_ns) {
  const auto value = static_cast<uint64_t>(value_ns);
  if (value < 16) return value;
  const int octave = std::bit_width(value) - 5;  // of 16..31: 0
  return static_cast<size_t>(octave + 1) * 16 + ((value >> octave) & 15);
}

int64_t LargestOfStep(size_t step) {
  if (step < 16) return static_cast<int64_t>(step);
  const size_t octave = step / 16 - 1;
  return static_cast<int64_t>(((16 + step % 16 + 1) << octave) - 1);
}

// Takes "key=value" with a number off the front of *text.
bool TakeNumber(std::string_view key, std::string_view* text, int64_t* value) {
  if (!text->starts_with(key) || text->size() <= key.size() || (*text)[key.size()] != '=') {
    return false;
  }
  text->remove_prefix(key.size() + 1);
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  while (text->starts_with(' ')) text->remove_prefix(1);
  return true;
}

}  // namespace

void Residuals::Add(int64_t value_ns) {
  value_ns = std::max<int64_t>(value_ns, 0);
  ++counts_[StepOf(value_ns)];
  ++count_;
  max_ns_ = std::max(max_ns_, value_ns);
}

int64_t Residuals::Percentile(double share) const {
  const auto wanted = static_cast<int64_t>(std::ceil(static_cast<double>(count_) * share));
  int64_t seen = 0;
  for (size_t step = 0; step < counts_.size() && count_ > 0; ++step) {
    seen += counts_[step];
    if (seen >= wanted) return std::min(LargestOfStep(step), max_ns_);
  }
  return max_ns_;
}

std::string PrintClockFacts(const ClockFacts& facts) {
  return fmt::format(
      "method={} offset_ns={} drift_ppb={} collectives={} residual_p50_ns={} residual_p95_ns={} "
      "residual_max_ns={} processes={}",
      Name(facts.method), facts.offset_ns, facts.drift_ppb, facts.collectives,
      facts.residual_p50_ns, facts.residual_p95_ns, facts.residual_max_ns, facts.processes);
}

std::optional<ClockFacts> ParseClockFacts(std::string_view text) {
  constexpr std::string_view kMethod = "method=";
  constexpr std::string_view kProcesses = "processes=";
  if (!text.starts_with(kMethod)) return std::nullopt;
  text.remove_prefix(kMethod.size());
  const std::string_view word = text.substr(0, text.find(' '));
  const std::optional<ClockMethod> method = words::ParseClockMethod(word);
  if (!method) return std::nullopt;
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  ClockFacts facts;
  facts.method = *method;
  const bool numbers = TakeNumber("offset_ns", &text, &facts.offset_ns) &&
                       TakeNumber("drift_ppb", &text, &facts.drift_ppb) &&
                       TakeNumber("collectives", &text, &facts.collectives) &&
                       TakeNumber("residual_p50_ns", &text, &facts.residual_p50_ns) &&
                       TakeNumber("residual_p95_ns", &text, &facts.residual_p95_ns) &&
                       TakeNumber("residual_max_ns", &text, &facts.residual_max_ns);
  if (!numbers || !text.starts_with(kProcesses)) return std::nullopt;
  facts.processes = text.substr(kProcesses.size());
  return facts;
}

std::string ClockFactsKey(size_t clock) { return fmt::format("{}{}", kClockFactsPrefix, clock); }

}  // namespace shardscope::store
