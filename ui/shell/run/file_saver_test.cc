#include "ui/shell/run/file_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

namespace shardscope::shell {
namespace {

using testing::HasSubstr;

class FileSaverTest : public testing::Test {
 protected:
  FileSaverTest()
      : folder_(std::filesystem::weakly_canonical(testing::TempDir()).string() +
                "/file_saver_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FileSaverTest() override { std::filesystem::remove_all(folder_); }

  std::vector<Result<std::string>> Wait(FileSaver* saver, size_t count) {
    std::vector<Result<std::string>> all;
    for (int tries = 0; all.size() < count && tries < 6000; ++tries) {
      for (Result<std::string>& one : saver->TakeEnded()) all.push_back(std::move(one));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return all;
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(FileSaverTest, NumbersFilesAndWritesOverNone) {
  std::atomic<int> woken = 0;
  FileSaver saver([&] { ++woken; });
  const std::string folder = folder_ + "/exports";
  for (const char* text : {"a", "b", "c"}) {
    saver.Save({folder, "steps", ".csv", [text] { return Result<std::string>(text); }});
  }
  const auto ended = Wait(&saver, 3);
  ASSERT_EQ(ended.size(), 3u);
  std::string all;
  for (int number = 1; number <= 3; ++number) {
    all += Content(folder + "/steps-" + std::to_string(number) + ".csv");
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, "abc");
  saver.Save({folder, "steps", ".csv", [] { return Result<std::string>("d"); }});
  const auto next = Wait(&saver, 1);
  ASSERT_EQ(next.size(), 1u);
  ASSERT_TRUE(next[0].ok()) << next[0].message();
  EXPECT_EQ(*next[0], folder + "/steps-4.csv");
  EXPECT_TRUE(saver.TakeEnded().empty());
  EXPECT_GE(woken, 3);
}

TEST_F(FileSaverTest, OfARunThatIsGoneNothingIsMade) {
  FileSaver saver(nullptr);
  const std::string run = folder_ + "/run";
  saver.Save({run + "/exports", "steps", ".csv", [] { return Result<std::string>("a"); }});
  const auto ended = Wait(&saver, 1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0].message(), HasSubstr(run + " is gone"));
  EXPECT_FALSE(std::filesystem::exists(run));
}

TEST_F(FileSaverTest, SaysWhyNothingWasWritten) {
  FileSaver saver(nullptr);
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "in the way";
  saver.Save({file, "steps", ".csv", [] { return Result<std::string>("a"); }});
  auto ended = Wait(&saver, 1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended[0].message(), HasSubstr("cannot make the folder " + file));
  saver.Save({folder_ + "/exports", "picture", ".png",
              [] { return Result<std::string>(Status::Error("no memory")); }});
  ended = Wait(&saver, 1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].message(), "no memory");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/exports"));
}

TEST_F(FileSaverTest, FilesStandBesideTheRun) {
  EXPECT_EQ(ExportsFolder("", ""), "");
  EXPECT_EQ(ExportsFolder("a snapshot", ""), "");  // that no folder has
  EXPECT_EQ(ExportsFolder(folder_, folder_), folder_ + "/exports");
  const std::string traces = folder_ + "/traces";
  std::filesystem::create_directories(traces);
  EXPECT_EQ(ExportsFolder(traces, folder_ + "/cache/run"), folder_ + "/exports");
}

TEST_F(FileSaverTest, NothingIsWrittenBesideARunThatIsGone) {
  const std::string run = folder_ + "/run";
  std::filesystem::create_directory(run);
  const auto watch = std::make_shared<FolderWatch>(run);
  std::filesystem::remove(run);
  FileSaver saver({});
  saver.Save({.folder = folder_ + "/exports",
              .name = "steps",
              .extension = ".csv",
              .make = [] { return Result<std::string>("a"); },
              .run = watch});
  const auto ended = Wait(&saver, 1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_THAT(ended.front().message(), HasSubstr("The folder of this run is gone"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace shardscope::shell
