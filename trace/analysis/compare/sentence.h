// The sentence that a comparison begins with. Pure.
#pragma once

#include <string>

#include "trace/analysis/compare/comparison.h"

namespace shardscope::analysis {

// Better, worse or within noise, by how much, and what makes most of it.
std::string SentenceOf(const Comparison& comparison);

// The part that makes most of the difference of the step, in its direction.
StepPart LargestPart(const Comparison& comparison);

// Where a step of A has more or fewer tokens than one of B: ", 512 -> 256 tokens, 5.1k -> 2.4k
// tokens/s". Else empty.
std::string TokensIn(const Comparison& comparison);

}  // namespace shardscope::analysis
