#include "engine/runtime/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace shardscope::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  // Names in a folder.
  static std::set<std::string> In(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }

  const fs::path root_ = fs::temp_directory_path() / ("run-folder-" + std::to_string(getpid()));
};

TEST_F(RunFolderTest, RefusesAFolderThatHasWhatARunWouldWrite) {
  for (const char* name : {"log.txt", "schedules", "checkpoints", "run.toml", "trace-a-1.db"}) {
    const fs::path folder = root_ / "theirs" / name;
    if (fs::path(name).has_extension()) {
      fs::create_directories(folder);
    } else {
      fs::create_directories(folder.parent_path());
      std::ofstream(folder) << "theirs";
    }
    const auto made = RunFolder::Create(root_ / "theirs");
    ASSERT_FALSE(made.ok());
    const bool is_run = name == std::string("run.toml") || name == std::string("trace-a-1.db");
    EXPECT_THAT(made.message(), HasSubstr(is_run ? "has a run in it already" : name));
    EXPECT_EQ(In(root_ / "theirs"), std::set<std::string>{name});
    fs::remove_all(root_ / "theirs");
  }
}

TEST_F(RunFolderTest, TakesAFolderWithOtherFiles) {
  std::ofstream(root_ / "notes.txt") << "mine";
  const auto made = RunFolder::Create(root_);
  ASSERT_TRUE(made.ok()) << made.message();
  made->Discard();
  EXPECT_EQ(In(root_), std::set<std::string>{"notes.txt"});
}

TEST_F(RunFolderTest, OfRunsThatStartTogetherEachGetsItsOwn) {
  constexpr int kRuns = 8;
  std::vector<std::string> paths(kRuns);
  std::vector<std::thread> runs;
  for (std::string& path : paths) {
    runs.emplace_back([&] {
      const auto made = RunFolder::Create(root_ / "now", IfTaken::kNumber);
      if (made.ok()) path = made->path();
    });
  }
  for (std::thread& run : runs) run.join();
  std::set<std::string> expected = {"now"};
  for (int number = 2; number <= kRuns; ++number) expected.insert("now-" + std::to_string(number));
  EXPECT_EQ(In(root_), expected);
  EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), paths.size());
}

TEST_F(RunFolderTest, OfRunsThatNameOneFolderOneGetsIt) {
  std::vector<int> got(8, 0);
  std::vector<std::thread> runs;
  for (int& one : got) {
    runs.emplace_back([&] { one = RunFolder::Create(root_ / "named").ok() ? 1 : 0; });
  }
  for (std::thread& run : runs) run.join();
  EXPECT_EQ(std::count(got.begin(), got.end(), 1), 1);
}

TEST_F(RunFolderTest, WhatNeverBeganLeavesNothing) {
  const auto made = RunFolder::Create(root_ / "a/b");
  ASSERT_TRUE(made.ok()) << made.message();
  ASSERT_TRUE(made->WriteConfig("").ok());
  made->Log("change refused");
  made->Discard();
  EXPECT_FALSE(fs::exists(root_ / "a/b"));
  ASSERT_TRUE(RunFolder::Create(root_ / "a/b").ok());
}

TEST_F(RunFolderTest, TheRootOfTheFileSystemIsNoFolderForARun) {
  for (const char* path : {"/", "//", "/tmp/.."}) {
    EXPECT_THAT(RunFolder::CheckFree(path).message(), HasSubstr("name a folder in it")) << path;
  }
}

}  // namespace
}  // namespace shardscope::runtime
