#include "engine/model/matmul_scratch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string>

#include "trace/base/letter_case.h"

namespace shardscope::model {
namespace {

// Leaves 0 and 7 of CPUID (Intel 64 and IA-32 Architectures Software Developer's Manual, volume
// 2A). What has AMX has both: oneDNN takes it only where it finds them.
CpuTypes AskCpu() {
  CpuTypes types;
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return types;
  types.is_intels = ebx == signature_INTEL_ebx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return types;
  // AVX512F, AVX512DQ, AVX512BW, AVX512VL: mkldnn_bf16_device_check() of LibTorch
  constexpr unsigned kAvx512 = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;
  types.is_known = (ebx & kAvx512) == kAvx512;
  types.has_fp16 = (edx & 1U << 23) != 0;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return types;
  types.has_bf16 = (eax & 1U << 5) != 0;
#endif
  return types;
}

// cpu_isa_traits.cpp of oneDNN; LibTorch asks oneDNN which types it has.
CpuTypes AskOneDnn() {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* max_isa = std::getenv(name);
    if (max_isa != nullptr && *max_isa != '\0') return Limited(AskCpu(), max_isa);
  }
  return AskCpu();
}

constexpr int64_t RoundedUp(int64_t elements) { return (elements + 63) / 64 * 64; }

}  // namespace

CpuTypes Limited(CpuTypes types, std::string_view max_isa) {
  const std::string isa = Lower(max_isa);
  if (isa == "sse41" || isa == "avx" || isa.starts_with("avx2")) return {};
  const bool has_bf16 = isa != "avx512_core" && isa != "avx512_core_vnni";
  types.has_bf16 &= has_bf16;
  types.has_fp16 &= has_bf16 && isa != "avx512_core_bf16";
  return types;
}

MatmulScratch MatmulScratchOf(plan::DType dtype) {
  static const CpuTypes types = AskOneDnn();
  return MatmulScratchOf(dtype, types);
}

MatmulScratch MatmulScratchOf(plan::DType dtype, const CpuTypes& types) {
  if (dtype == plan::DType::kFp32) {
    return types.is_known && !types.is_intels ? MatmulScratch::kBlocks : MatmulScratch::kNone;
  }
  if (plan::BytesOf(dtype) != 2) return MatmulScratch::kNone;
  if (!types.is_known) return MatmulScratch::kCopies;
  if (dtype == plan::DType::kBf16) {
    return types.has_bf16 ? MatmulScratch::kCopies : MatmulScratch::kSums;
  }
  return types.has_fp16 ? MatmulScratch::kCopies : MatmulScratch::kNone;
}

bool IsOneDnns(MatmulScratch scratch, int64_t rows, int64_t columns, int64_t inner) {
  constexpr int64_t kFewestRows = 128;
  constexpr int64_t kFewestProducts = 1 << 24;  // a third of a millisecond
  return scratch == MatmulScratch::kBlocks && rows >= kFewestRows &&
         rows * columns * inner >= kFewestProducts;
}

int64_t MatmulScratchBytes(MatmulScratch scratch, int64_t rows, int64_t columns, int64_t inner) {
  constexpr int64_t kFp32Bytes = 4;
  switch (scratch) {
    case MatmulScratch::kNone:
      return 0;
    case MatmulScratch::kBlocks:  // measured with LibTorch 2.11: 673 KB at most
      return IsOneDnns(scratch, rows, columns, inner) ? 704 << 10 : 0;
    case MatmulScratch::kSums: {  // gemm_based_common.hpp of oneDNN; a block's edge, and a scale
      constexpr int64_t kEdge = 128;
      return kFp32Bytes * RoundedUp(rows * columns) + kEdge + kFp32Bytes;
    }
    case MatmulScratch::kCopies: {
      constexpr int64_t kWorkspace = 8192;
      const int64_t copies =
          RoundedUp(rows) * RoundedUp(inner) + RoundedUp(inner) * RoundedUp(columns);
      return 2 * copies + kFp32Bytes * RoundedUp(rows) * RoundedUp(columns) + kWorkspace;
    }
  }
  return 0;
}

}  // namespace shardscope::model
