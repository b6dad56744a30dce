#include "trace/base/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "trace/base/mapped_file.h"
#include "trace/base/output_file.h"
#include "trace/base/read_ahead.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

class InputFileTest : public testing::Test {
 protected:
  ~InputFileTest() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "input_" + std::to_string(getpid());
};

TEST_F(InputFileTest, AFileIsReadWholeOrNotAtAll) {
  const std::string text(100'000, 'x');
  ASSERT_TRUE(WriteFile(path_, text).ok());
  EXPECT_EQ(ReadFile(path_, text.size()).value(), text);
  EXPECT_THAT(ReadFile(path_, text.size() - 1).message(), HasSubstr(path_ + " is larger than"));
  EXPECT_FALSE(ReadFile("/proc/self/status", 1 << 20).value().empty());  // has no size
}

TEST_F(InputFileTest, TheEndOfAFile) {
  ASSERT_TRUE(WriteFile(path_, "0123456789").ok());
  const auto end = ReadFileEnd(path_, 2, 4);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->bytes, "6789");
  EXPECT_EQ(end->offset, 6);
  EXPECT_EQ(ReadFileEnd(path_, 8, 4)->bytes, "89");
  EXPECT_EQ(ReadFileEnd(path_, 20, 4)->bytes, "");
}

TEST_F(InputFileTest, AnyPartMayBeReadAheadAndForgotten) {
  std::string text(300'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  ASSERT_TRUE(WriteFile(path_, text).ok());
  const auto mapped = MappedFile::Open(path_);
  ASSERT_TRUE(mapped.ok()) << mapped.message();
  ReadAhead ahead(path_);
  for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 300'000},
                                     {5'000, 1},
                                     {5'000, 200'000},
                                     {299'999, 100},
                                     {400'000, 10},
                                     {0, 0}}) {
    ahead.Ask(first, count);
    ahead.WaitFor(first, count);
    const auto* data = reinterpret_cast<const char*>(mapped->bytes().data());
    EXPECT_TRUE(std::string_view(data, mapped->bytes().size()) == text) << first;
    mapped->Forget(first, count);
    EXPECT_TRUE(std::string_view(data, mapped->bytes().size()) == text) << first;
  }
}

TEST_F(InputFileTest, WhatMayNeverEndIsNotRead) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0666), 0);
  for (const std::string& path : {path_, std::string("/dev/zero"), std::string("/dev/null")}) {
    EXPECT_THAT(ReadFile(path, 100).message(), HasSubstr(path + " is a pipe or a device"));
    EXPECT_FALSE(ReadFileEnd(path, 0, 100).ok());
    EXPECT_EQ(MappedFile::Open(path).message(), ReadFile(path, 100).message());
  }
  for (const std::string& path : {testing::TempDir(), std::string("/nowhere")}) {
    EXPECT_EQ(MappedFile::Open(path).message(), ReadFile(path, 100).message());
  }
  EXPECT_THAT(ReadFile(testing::TempDir(), 100).message(), HasSubstr("is a folder"));
  EXPECT_THAT(ReadFile("/nowhere", 100).message(), HasSubstr("/nowhere: No such file"));
}

}  // namespace
}  // namespace shardscope
