#include "ui/shell/backend/animated_png.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace shardscope::shell {
namespace {

Image Plain(int width, int height, uint8_t value) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 4), value)};
}

struct Chunk {
  std::string type;
  std::string data;
};

uint32_t Int(const std::string& bytes, size_t at, size_t size = 4) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(bytes.at(at + i));
  return value;
}

// By their lengths, without a look at what is in them.
std::vector<Chunk> ChunksOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::vector<Chunk> chunks;
  for (size_t at = 8; at < bytes.size();) {
    const size_t length = Int(bytes, at);
    chunks.push_back({bytes.substr(at + 4, 4), bytes.substr(at + 8, length)});
    at += length + 12;
  }
  return chunks;
}

class AnimatedPngTest : public testing::Test {
 protected:
  AnimatedPngTest() : path_(testing::TempDir() + "/shardscope_animated.png") {
    std::filesystem::remove(path_);
  }
  ~AnimatedPngTest() override { std::filesystem::remove(path_); }

  std::string path_;
};

TEST_F(AnimatedPngTest, AFrameTakesWhatHasChanged) {
  Image second = Plain(20, 10, 7);
  for (const int at : {4 * 20 + 3, 6 * 20 + 8}) second.rgba[static_cast<size_t>(at) * 4 + 1] = 99;
  AnimatedPng png = std::move(AnimatedPng::Create(path_, 3, 250'000'000).value());
  ASSERT_TRUE(png.Add(Plain(20, 10, 7)).ok());
  ASSERT_TRUE(png.Add(second).ok());
  ASSERT_TRUE(png.Add(second).ok());
  ASSERT_TRUE(png.Close().ok());

  const std::vector<Chunk> chunks = ChunksOfFile(path_);
  std::vector<std::string> types;
  for (const Chunk& chunk : chunks) types.push_back(chunk.type);
  EXPECT_EQ(types, (std::vector<std::string>{"IHDR", "acTL", "fcTL", "IDAT", "fcTL", "fdAT", "fcTL",
                                             "fdAT", "IEND"}));
  EXPECT_EQ(Int(chunks[0].data, 0), 20u);
  EXPECT_EQ(Int(chunks[1].data, 0), 3u);
  // Sequence, width, height, x, y, then milliseconds of a second.
  const auto control = [&](size_t chunk) {
    std::vector<uint32_t> values;
    for (size_t at = 0; at < 20; at += 4) values.push_back(Int(chunks[chunk].data, at));
    values.push_back(Int(chunks[chunk].data, 20, 2));
    values.push_back(Int(chunks[chunk].data, 22, 2));
    return values;
  };
  EXPECT_EQ(control(2), (std::vector<uint32_t>{0, 20, 10, 0, 0, 250, 1000}));
  EXPECT_EQ(control(4), (std::vector<uint32_t>{1, 6, 3, 3, 4, 250, 1000}));
  EXPECT_EQ(Int(chunks[5].data, 0), 2u);
  EXPECT_EQ(control(6), (std::vector<uint32_t>{3, 1, 1, 0, 0, 250, 1000}));
}

TEST_F(AnimatedPngTest, WithoutItsEndThereIsNoFile) {
  {
    AnimatedPng png = std::move(AnimatedPng::Create(path_, 2, 100'000'000).value());
    ASSERT_TRUE(png.Add(Plain(4, 4, 1)).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace shardscope::shell
