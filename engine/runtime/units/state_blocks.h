// Optimizer state in 8 bits (Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv
// 2110.02861): numbers of a block share the largest magnitude as their scale, and each has a byte
// that says where below it lies. Its codes are as dense for small numbers as for large ones, over
// several decades: decade d below the scale has a number of cells of one width that doubles from
// decade to decade, and a code stands for the middle of its cell ("dynamic tree quantisation").
//
// What differs from bitsandbytes: a signed map has -1 as well as 1, for the smallest pair of codes,
// so that encoding what was decoded gives the same bytes; and a number that is never negative does
// not become zero unless it is, as Adam divides by its root.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardscope::runtime {

enum class BlockRange : uint8_t { kSigned, kNeverNegative };

// Of tensor `tensor` of plan::StateTensorsOf(): Adam's second moment is a mean of squares.
constexpr BlockRange RangeOf(size_t tensor) {
  return tensor == 1 ? BlockRange::kNeverNegative : BlockRange::kSigned;
}

// Blocks of plan::kStateBlockElements; the last may be shorter. T is float or double.
template <typename T>
void EncodeBlocks(const T* values, int64_t elements, BlockRange range, uint8_t* codes,
                  float* scales);
template <typename T>
void DecodeBlocks(const uint8_t* codes, const float* scales, int64_t elements, BlockRange range,
                  T* values);

}  // namespace shardscope::runtime
