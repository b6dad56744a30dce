// What LibTorch takes for itself during one matrix product of a two-byte type, on the CPU with one
// thread. Of the others it takes nothing.
#pragma once

#include <cstdint>

#include "engine/plan/op.h"

namespace shardscope::model {

enum class MatmulScratch : uint8_t {
  kNone,    // LibTorch's own loops
  kSums,    // oneDNN's gemm: adds in fp32, operands stay where they are
  kCopies,  // oneDNN's kernels for the type: operands in blocks too
};

// On this CPU. Where it is not known which way is taken: kCopies, which takes most.
MatmulScratch MatmulScratchOf(plan::DType dtype);

// At most, of [rows, inner] times [inner, columns]; of kSums to the byte but for the scale.
int64_t MatmulScratchBytes(MatmulScratch scratch, int64_t rows, int64_t columns, int64_t inner);

}  // namespace shardscope::model
