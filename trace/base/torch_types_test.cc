#include "trace/base/torch_types.h"

#include <gtest/gtest.h>

#include "trace/base/words.h"

namespace shardscope {
namespace {

TEST(TorchTypes, EveryWordOfTheTraceComesBack) {
  for (const words::DType dtype :
       {words::DType::kFp32, words::DType::kBf16, words::DType::kFp64, words::DType::kFp16}) {
    const std::string_view torch = TorchTypeOf(Name(dtype));
    EXPECT_FALSE(torch.empty()) << Name(dtype);
    EXPECT_EQ(TypeOfTorchType(torch), Name(dtype));
    EXPECT_GT(BytesOfTorchType(torch), 0) << torch;
  }
  EXPECT_EQ(TorchTypeOf("bf16"), "BFloat16");
}

TEST(TorchTypes, OthersHaveBytesAlone) {
  EXPECT_EQ(TypeOfTorchType("Long"), "Long");
  EXPECT_EQ(BytesOfTorchType("Long"), 8);
  EXPECT_EQ(TorchTypeOf("Long"), "");
  EXPECT_EQ(TypeOfTorchType(""), "");
  EXPECT_EQ(BytesOfTorchType("Nothing"), 0);
}

}  // namespace
}  // namespace shardscope
