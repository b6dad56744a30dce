// Values from one dtype to another in one pass, for what is read from files. Apart from LibTorch's
// conversions, which have branches, as the compiler vectorises these loops.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

namespace shardscope::model {

// `count` elements of dtype `from_type`, at any address, become those of `to`, of `to_type`; both
// are fp32, fp64, bf16 or fp16. Widening is exact, narrowing rounds to nearest, ties to even, and
// from fp64 to bf16 or fp16 by way of fp32. Returns whether all of `from` are finite.
bool ConvertValues(const std::byte* from, at::ScalarType from_type, int64_t count,
                   at::ScalarType to_type, void* to);

}  // namespace shardscope::model
