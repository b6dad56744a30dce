#include "engine/config/run_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace shardscope::config {
namespace {

class RunFilesTest : public ::testing::Test {
 protected:
  RunFilesTest() { std::filesystem::create_directories(root_); }
  ~RunFilesTest() override { std::filesystem::remove_all(root_); }

  void Make(const std::string& name) const { std::ofstream(root_ / name) << "theirs"; }
  std::optional<TouchedFile> Touched() const { return WhatARunWouldTouch(root_).value(); }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("run-files-" + std::to_string(getpid()));
};

TEST_F(RunFilesTest, NothingWhereThereIsNoFolderOrOtherFiles) {
  EXPECT_FALSE(WhatARunWouldTouch(root_ / "none").value().has_value());
  EXPECT_FALSE(Touched().has_value());
  Make("notes.txt");
  Make("output.txt");
  EXPECT_FALSE(Touched().has_value());
}

TEST_F(RunFilesTest, WhatHasTheNameOfARunsFile) {
  for (const std::string name : {"schedules", "checkpoints", "log.txt"}) {
    Make(name);
    ASSERT_TRUE(Touched().has_value()) << name;
    EXPECT_EQ(Touched()->name, name);
    EXPECT_FALSE(Touched()->is_run) << name;
    std::filesystem::remove(root_ / name);
  }
}

TEST_F(RunFilesTest, ARunComesBeforeAnythingElse) {
  for (const std::string name : {"run.toml", "trace-host-1.db", "trace-host-1"}) {
    Make("log.txt");
    Make(name);
    ASSERT_TRUE(Touched().has_value()) << name;
    EXPECT_EQ(Touched()->name, name);
    EXPECT_TRUE(Touched()->is_run) << name;
    std::filesystem::remove(root_ / name);
  }
}

TEST_F(RunFilesTest, AFileIsNoFolder) {
  Make("file");
  EXPECT_FALSE(WhatARunWouldTouch(root_ / "file").ok());
}

}  // namespace
}  // namespace shardscope::config
