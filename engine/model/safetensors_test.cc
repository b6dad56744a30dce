#include "engine/model/safetensors.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace shardscope::model {
namespace {

TEST(SafetensorsTest, WritesTheDocumentedLayout) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("s-" + std::to_string(getpid()))).string();
  SafetensorsWriter writer;
  writer.Add("w", at::tensor(std::vector<float>{1, 2}, at::kFloat));
  writer.Add("ids", at::tensor(std::vector<int64_t>{7}, at::kLong).view({1, 1}));
  ASSERT_TRUE(writer.Write(path).ok());
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  std::filesystem::remove(path);
  const std::string bytes = text.str();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  std::string header = bytes.substr(8, length);
  header.erase(header.find_last_not_of(' ') + 1);
  EXPECT_EQ(header, R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("ids":{"dtype":"I64","shape":[1,1],"data_offsets":[8,16]}})");
  const float expected[] = {1, 2};
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, expected, 8), 0);
  EXPECT_EQ(bytes.size(), 8 + length + 16);
}

TEST(SafetensorsTest, AnUnwritablePlaceIsAnErrorAndLeavesNothing) {
  SafetensorsWriter writer;
  writer.Add("w", at::zeros({1}));
  const Status status = writer.Write("/nonexistent/folder/x.safetensors");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nonexistent/folder/x.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace shardscope::model
