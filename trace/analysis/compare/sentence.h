// The sentence that a comparison begins with. Pure.
#pragma once

#include <string>

#include "trace/analysis/compare/comparison.h"

namespace shardscope::analysis {

// Better, worse or within noise, by how much, and what makes most of it.
std::string SentenceOf(const Comparison& comparison);

}  // namespace shardscope::analysis
