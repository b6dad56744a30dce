#include "engine/model/matmul_scratch.h"

#include <gtest/gtest.h>

#include <utility>

namespace shardscope::model {
namespace {

TEST(MatmulScratchTest, OnlyTypesOfTwoBytesTakeAny) {
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp32), MatmulScratch::kNone);
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp64), MatmulScratch::kNone);
  // Never less than its sums: an unknown CPU counts as one that takes most.
  EXPECT_NE(MatmulScratchOf(plan::DType::kBf16), MatmulScratch::kNone);
}

TEST(MatmulScratchTest, TheWayIsThatOfTheInstructionsWhichOneDnnMayUse) {
  constexpr CpuTypes kAmx{.is_known = true, .has_bf16 = true, .has_fp16 = true};
  const auto of = [&](const char* max_isa) {
    const CpuTypes types = Limited(kAmx, max_isa);
    return std::pair(MatmulScratchOf(plan::DType::kBf16, types),
                     MatmulScratchOf(plan::DType::kFp16, types));
  };
  constexpr MatmulScratch kNone = MatmulScratch::kNone;
  constexpr MatmulScratch kSums = MatmulScratch::kSums;
  constexpr MatmulScratch kCopies = MatmulScratch::kCopies;
  for (const char* all : {"", "ALL", "default", "AVX512_CORE_FP16", "AVX512_CORE_AMX", "AVX10_1"}) {
    EXPECT_EQ(of(all), std::pair(kCopies, kCopies)) << all;
  }
  EXPECT_EQ(of("AVX512_CORE_BF16"), std::pair(kCopies, kNone));
  for (const char* without : {"AVX512_CORE", "avx512_core_vnni"}) {
    EXPECT_EQ(of(without), std::pair(kSums, kNone)) << without;
  }
  for (const char* unknown : {"SSE41", "AVX", "AVX2", "AVX2_VNNI_2"}) {
    EXPECT_EQ(of(unknown), std::pair(kCopies, kCopies)) << unknown;
  }
  // A bound gives a CPU nothing.
  EXPECT_EQ(MatmulScratchOf(plan::DType::kBf16, Limited({.is_known = true}, "AVX512_CORE_AMX")),
            kSums);
}

TEST(MatmulScratchTest, SumsAreAsLargeAsWhatIsPutOutInFp32) {
  EXPECT_EQ(MatmulScratchBytes(MatmulScratch::kNone, 512, 4096, 192), 0);
  EXPECT_EQ(MatmulScratchBytes(MatmulScratch::kSums, 512, 4096, 192), 4 * 512 * 4096 + 132);
  EXPECT_EQ(MatmulScratchBytes(MatmulScratch::kSums, 5, 7, 1), 4 * 64 + 132);
  for (const int64_t inner : {1, 64, 1000}) {
    EXPECT_EQ(MatmulScratchBytes(MatmulScratch::kSums, 33, 70, inner),
              MatmulScratchBytes(MatmulScratch::kSums, 33, 70, 1));
  }
}

TEST(MatmulScratchTest, CopiesOfOperandsComeOnTop) {
  for (const int64_t inner : {1, 63, 64, 1000}) {
    EXPECT_GE(MatmulScratchBytes(MatmulScratch::kCopies, 33, 70, inner),
              MatmulScratchBytes(MatmulScratch::kSums, 33, 70, inner) + 2 * (33 + 70) * inner);
  }
}

}  // namespace
}  // namespace shardscope::model
