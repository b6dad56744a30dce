// The sentence that a comparison begins with. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/compare/comparison.h"
#include "trace/base/units.h"

namespace shardscope::analysis {

// How times and changes are written: for terminals and JSON in ASCII; the app has signs of its own.
struct SentenceSigns {
  std::string (*duration)(int64_t duration_ns) = FormatDuration;
  std::string_view arrow = "->";
};

// Better, worse or within noise, by how much, and what makes most of it.
std::string SentenceOf(const Comparison& comparison, const SentenceSigns& signs = {});

// What is done or set up differently, as far as the sentence names it.
struct Otherwise {
  struct Lead {  // units by which all-gathers are issued ahead
    int a = 0;
    int b = 0;
  };
  std::optional<Lead> forward;
  std::optional<Lead> backward;
  std::string_view gathers_again;                  // "A" or "B": only that does, in backward
  std::vector<const SettingDifference*> settings;  // of the comparison
  size_t num_others = 0;                           // settings that are not named
};
Otherwise OtherwiseOf(const Comparison& comparison);

// The part that makes most of the difference of the step, in its direction.
StepPart LargestPart(const Comparison& comparison);

// Where a step of A has more or fewer tokens than one of B: ", 512 -> 256 tokens, 5.1k -> 2.4k
// tokens/s". Else empty.
std::string TokensIn(const Comparison& comparison, const SentenceSigns& signs = {});
// "5.1k -> 2.4k tokens/s" of the steps of A and B.
std::string TokenRates(const Comparison& comparison, const SentenceSigns& signs = {});

}  // namespace shardscope::analysis
