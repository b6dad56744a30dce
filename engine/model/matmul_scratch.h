// Which library makes a matrix product on the CPU, with one thread, and what it takes for itself
// meanwhile.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/plan/op.h"

namespace shardscope::model {

enum class MatmulScratch : uint8_t {
  kNone,    // LibTorch's own loops, or MKL
  kBlocks,  // oneDNN's kernels for fp32: of the operands some blocks at a time
  kSums,    // oneDNN's gemm: adds in fp32, operands stay where they are
  kCopies,  // oneDNN's kernels for the type: operands in blocks too
};

// By what LibTorch, oneDNN and IsOneDnns() choose a way.
struct CpuTypes {
  bool is_intels = false;  // MKL uses AVX-512 on these only
  bool is_known = false;   // there is AVX-512 for fp32, which oneDNN's gemm of bf16 is for
  bool has_bf16 = false;
  bool has_fp16 = false;
};
// What of them oneDNN uses where ONEDNN_MAX_CPU_ISA, or DNNL_MAX_CPU_ISA, is `max_isa`. A name that
// oneDNN does not have bounds nothing.
CpuTypes Limited(CpuTypes types, std::string_view max_isa);

// On this CPU, with those variables. Where it is not known which way is taken: kCopies, which takes
// most.
MatmulScratch MatmulScratchOf(plan::DType dtype);
MatmulScratch MatmulScratchOf(plan::DType dtype, const CpuTypes& types);

// Whether of products with kBlocks this one, [rows, inner] times [inner, columns], is large enough
// to be oneDNN's; MKL makes the others in less time (docs/benchmarks.md).
bool IsOneDnns(MatmulScratch scratch, int64_t rows, int64_t columns, int64_t inner);

// At most, of [rows, inner] times [inner, columns]; of kSums to the byte but for the scale.
int64_t MatmulScratchBytes(MatmulScratch scratch, int64_t rows, int64_t columns, int64_t inner);

}  // namespace shardscope::model
