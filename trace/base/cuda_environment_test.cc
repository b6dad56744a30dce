#include "trace/base/cuda_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace shardscope {
namespace {

using ::testing::IsSupersetOf;

TEST(CudaEnvironment, IsKeptByPrefix) {
  const std::map<std::string, std::string> kept = {
      {"NCCL_SHARDSCOPE", "LL=1"},         {"CUDA_SHARDSCOPE", ""},
      {"CUBLAS_SHARDSCOPE", ":4096:8"},    {"TORCH_SHARDSCOPE", "1"},
      {"PYTORCH_SHARDSCOPE", "a:1,b:[2]"},
  };
  const std::map<std::string, std::string> left = {{"SHARDSCOPE_NCCL_", "x"}, {"NCCLSHARD", "y"}};
  for (const auto* const variables : {&kept, &left}) {
    for (const auto& [name, value] : *variables) setenv(name.c_str(), value.c_str(), 1);
  }
  const std::map<std::string, std::string> found = CudaEnvironment();
  EXPECT_THAT(found, IsSupersetOf(kept));
  for (const auto& [name, value] : left) EXPECT_FALSE(found.contains(name)) << name;
  for (const auto* const variables : {&kept, &left}) {
    for (const auto& [name, value] : *variables) unsetenv(name.c_str());
  }
}

}  // namespace
}  // namespace shardscope
