// The arithmetic of reductions: sums in rank order in max(fp32, dtype).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "engine/plan/op.h"

namespace shardscope::transport {

// output[i] = (inputs[0][i] + inputs[1][i] + ...) * scale, added in this order, rounded to `dtype`
// once. Every pointer is aligned for `dtype`; `output` is one of the inputs or overlaps none.
void SumInOrder(std::span<const std::byte* const> inputs, size_t elements, plan::DType dtype,
                double scale, std::byte* output);

// Elements [first, second) of the `elements` of an all-reduce that `rank` sums for all: parts as
// equal as whole elements allow, which are all of them together.
std::pair<size_t, size_t> ChunkOf(size_t elements, int rank, int num_ranks);

}  // namespace shardscope::transport
