#include "engine/model/matmul_scratch.h"

#include <gtest/gtest.h>

#include <utility>

namespace shardscope::model {
namespace {

TEST(MatmulScratchTest, SomeTypesTakeNone) {
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

TEST(MatmulScratchTest, OneDnnMakesProductsInFp32WhereMklHasNoAvx512) {
  constexpr CpuTypes kAmd{.is_intels = false, .is_known = true};
  constexpr CpuTypes kIntel{.is_intels = true, .is_known = true};
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp32, kAmd), MatmulScratch::kBlocks);
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp32, kIntel), MatmulScratch::kNone);
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp32, CpuTypes{}), MatmulScratch::kNone);
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp32, Limited(kAmd, "AVX2")), MatmulScratch::kNone);
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp64, kAmd), MatmulScratch::kNone);
}

TEST(MatmulScratchTest, OfProductsInFp32LargeOnesAreOneDnns) {
  constexpr MatmulScratch kBlocks = MatmulScratch::kBlocks;
  EXPECT_TRUE(IsOneDnns(kBlocks, 512, 1408, 512));
  EXPECT_FALSE(IsOneDnns(MatmulScratch::kNone, 512, 1408, 512));
  EXPECT_FALSE(IsOneDnns(kBlocks, 128, 256, 256));
  EXPECT_FALSE(IsOneDnns(kBlocks, 32, 4096, 4096));
  EXPECT_EQ(MatmulScratchBytes(kBlocks, 128, 256, 256), 0);
  EXPECT_GT(MatmulScratchBytes(kBlocks, 512, 1408, 512), 0);
  EXPECT_EQ(MatmulScratchBytes(kBlocks, 4096, 32000, 4096),
            MatmulScratchBytes(kBlocks, 512, 1408, 512));
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
