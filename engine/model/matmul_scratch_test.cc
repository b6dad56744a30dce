#include "engine/model/matmul_scratch.h"

#include <gtest/gtest.h>

namespace shardscope::model {
namespace {

TEST(MatmulScratchTest, OnlyTypesOfTwoBytesTakeAny) {
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp32), MatmulScratch::kNone);
  EXPECT_EQ(MatmulScratchOf(plan::DType::kFp64), MatmulScratch::kNone);
  // Never less than its sums: an unknown CPU counts as one that takes most.
  EXPECT_NE(MatmulScratchOf(plan::DType::kBf16), MatmulScratch::kNone);
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
