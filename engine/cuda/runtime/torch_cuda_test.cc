// What is said where LibTorch's CUDA libraries are not to be had.
#include "engine/cuda/runtime/torch_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace shardscope::cuda {
namespace {

using testing::HasSubstr;

TEST(TorchCuda, WhereItWasLookedForIsSaidWithTheRemedy) {
  const Status status = LoadTorchCuda({"/no/such/libtorch_cuda.so", "/nor/this/libtorch_cuda.so"});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("/no/such/libtorch_cuda.so"));
  EXPECT_THAT(status.message(), HasSubstr("/nor/this/libtorch_cuda.so"));
  EXPECT_THAT(status.message(), HasSubstr("pip install torch==2."));
  EXPECT_THAT(status.message(), HasSubstr("SHARDSCOPE_TORCH_LIB"));
}

TEST(TorchCuda, AnotherLibraryIsRefused) {
  const Status status = LoadTorchCuda({"libm.so.6"});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("libm.so.6 is no CUDA library of LibTorch"));
}

TEST(TorchCuda, AFolderThatTheUserNamesIsTheOnlyCandidate) {
  ASSERT_EQ(setenv("SHARDSCOPE_TORCH_LIB", "/opt/torch/lib", 1), 0);
  EXPECT_THAT(TorchCudaCandidates(), testing::ElementsAre("/opt/torch/lib/libtorch_cuda.so"));
  ASSERT_EQ(unsetenv("SHARDSCOPE_TORCH_LIB"), 0);
  const std::vector<std::string> candidates = TorchCudaCandidates();
  ASSERT_EQ(candidates.size(), 2U);
  EXPECT_EQ(candidates[0], "libtorch_cuda.so");
  EXPECT_THAT(candidates[1], testing::EndsWith("/lib/libtorch_cuda.so"));
}

}  // namespace
}  // namespace shardscope::cuda
