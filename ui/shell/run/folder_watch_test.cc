#include "ui/shell/run/folder_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shardscope::shell {
namespace {

namespace fs = std::filesystem;
using ui::RunPlace;

class FolderWatchTest : public testing::Test {
 protected:
  FolderWatchTest() : folder_(testing::TempDir() + "/folder_watch_test"), run_(folder_ + "/run") {
    fs::remove_all(folder_);
    fs::create_directories(run_);
  }
  ~FolderWatchTest() override { fs::remove_all(folder_); }
  static void Write(const std::string& path) { std::ofstream(path) << "x"; }

  const std::string folder_;
  const std::string run_;
};

TEST_F(FolderWatchTest, WhatHappensInsideAFolderDoesNotReplaceIt) {
  Write(run_ + "/trace-a-1.live.db");
  FolderWatch watch(run_);
  Write(run_ + "/trace-a-1.live.2.db");
  fs::remove(run_ + "/trace-a-1.live.db");
  EXPECT_EQ(watch.Look(), RunPlace::kThere);
  fs::rename(run_ + "/trace-a-1.live.2.db", run_ + "/trace-a-1.db");
  fs::create_directories(run_ + "/checkpoints/step-3");
  EXPECT_EQ(watch.Look(), RunPlace::kThere);
  EXPECT_TRUE(watch.Check().ok());
}

// Where file systems give a removed folder's inode to the next one, it is another all the same.
TEST_F(FolderWatchTest, AFolderIsGoneReplacedAndPutBack) {
  FolderWatch watch(run_);
  fs::remove_all(run_);
  EXPECT_EQ(watch.seen(), RunPlace::kThere);  // nobody has looked
  EXPECT_EQ(watch.Look(), RunPlace::kFolderGone);
  EXPECT_EQ(watch.seen(), RunPlace::kFolderGone);
  fs::create_directory(run_);
  EXPECT_EQ(watch.Look(), RunPlace::kFolderReplaced);
  EXPECT_THAT(watch.Check().message(), testing::HasSubstr("holds another run now"));

  FolderWatch of_next(run_);
  fs::rename(run_, run_ + ".away");
  EXPECT_EQ(of_next.Look(), RunPlace::kFolderGone);
  fs::rename(run_ + ".away", run_);
  EXPECT_EQ(of_next.Look(), RunPlace::kThere);
}

TEST_F(FolderWatchTest, ATraceFileIsGoneReplacedOrFinished) {
  const std::string live = run_ + "/trace-a-1.live.db";
  const std::string finished = run_ + "/trace-a-1.db";
  Write(live);
  FolderWatch of_live(live);
  EXPECT_EQ(of_live.Look(), RunPlace::kThere);
  Write(finished);
  fs::remove(live);
  EXPECT_EQ(of_live.Look(), RunPlace::kThere);

  FolderWatch of_finished(finished);
  fs::rename(finished, finished + ".old");
  EXPECT_EQ(of_finished.Look(), RunPlace::kFileGone);
  EXPECT_EQ(of_live.Look(), RunPlace::kFileGone);
  Write(finished);
  EXPECT_EQ(of_finished.Look(), RunPlace::kFileReplaced);
}

TEST_F(FolderWatchTest, WhatNeverWasThereIsNotMissed) {
  FolderWatch watch(run_ + "/none");
  EXPECT_EQ(watch.Look(), RunPlace::kThere);
}

}  // namespace
}  // namespace shardscope::shell
