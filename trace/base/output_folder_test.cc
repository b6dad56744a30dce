#include "trace/base/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "trace/base/output_file.h"
#include "trace/base/process_id.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFolderTest : public testing::Test {
 protected:
  OutputFolderTest() {
    std::string pattern = testing::TempDir() + "output_folder_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~OutputFolderTest() override { fs::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  fs::path folder_;
};

// Of a process that has been, and is no more.
pid_t NumberOfGone() {
  const pid_t process = fork();
  if (process == 0) _exit(0);
  waitpid(process, nullptr, 0);
  return process;
}

TEST_F(OutputFolderTest, AFolderIsThereWhenItIsWhole) {
  auto made = OutputFolder::Make(At("folder"), ".making-");
  ASSERT_TRUE(made.ok()) << made.message();
  OutputFolder folder = std::move(made).value();
  EXPECT_EQ(folder.path(), At("folder") + ".making-" + std::to_string(getpid()));
  ASSERT_TRUE(WriteFile(folder.path() + "/file", "x").ok());
  EXPECT_FALSE(fs::exists(At("folder")));
  ASSERT_TRUE(folder.Commit().ok());
  EXPECT_TRUE(fs::exists(At("folder/file")));
  EXPECT_THAT(Names(), testing::ElementsAre("folder"));
}

TEST_F(OutputFolderTest, WhatIsNotCommittedWasNeverThere) {
  {
    const auto folder = OutputFolder::Make(At("folder"), ".making-");
    ASSERT_TRUE(folder.ok()) << folder.message();
    ASSERT_TRUE(WriteFile((*folder).path() + "/file", "x").ok());
  }
  {
    fs::create_directory(At("own"));
    const OutputFolder folder(At("own"), At("folder"));
  }
  EXPECT_THAT(Names(), testing::IsEmpty());
}

TEST_F(OutputFolderTest, WhatIsInItsPlaceStays) {
  fs::create_directories(At("folder/of another"));
  {
    auto folder = OutputFolder::Make(At("folder"), ".making-");
    ASSERT_TRUE(folder.ok()) << folder.message();
    EXPECT_THAT(
        folder->Commit().message(),
        testing::AllOf(HasSubstr("cannot rename "), HasSubstr(" to " + At("folder") + ": ")));
  }
  EXPECT_TRUE(fs::exists(At("folder/of another")));
  EXPECT_THAT(Names(), testing::ElementsAre("folder"));
}

TEST_F(OutputFolderTest, ReplacesWhatIsInItsPlace) {
  for (const bool is_there : {false, true}) {
    auto folder = OutputFolder::Make(At("folder"), ".making-");
    ASSERT_TRUE(folder.ok()) << folder.message();
    const std::string name = is_there ? "new" : "old";
    ASSERT_TRUE(WriteFile((*folder).path() + "/" + name, "x").ok());
    const Status replaced = folder->Replace();
    ASSERT_TRUE(replaced.ok()) << replaced.message();
    EXPECT_EQ((*folder).path(), "");
    EXPECT_TRUE(fs::exists(At("folder/" + name)));
    EXPECT_THAT(Names(), testing::ElementsAre("folder"));
  }
  EXPECT_FALSE(fs::exists(At("folder/old")));
}

TEST_F(OutputFolderTest, WhatItCannotReplaceStays) {
  fs::create_directories(At("folder/of another"));
  {
    auto folder = OutputFolder::Make(At("folder"), ".making-");
    ASSERT_TRUE(folder.ok()) << folder.message();
    fs::remove((*folder).path());
    EXPECT_THAT(folder->Replace().message(), HasSubstr("cannot rename "));
  }
  EXPECT_TRUE(fs::exists(At("folder/of another")));
}

TEST_F(OutputFolderTest, LeftOversOfProcessesThatAreGoneAreRemoved) {
  const pid_t gone = NumberOfGone();
  const std::string living = "folder.making-" + std::to_string(getppid());
  const std::string others = "other.making-" + std::to_string(gone);
  for (const std::string& name : {living, others, "folder.making-" + std::to_string(gone)})
    fs::create_directories(At(name) + "/part");
  ASSERT_TRUE(OutputFolder::Make(At("folder"), ".making-").ok());
  EXPECT_THAT(Names(), testing::UnorderedElementsAre(living, others));
}

TEST_F(OutputFolderTest, AFolderThatCannotBeMadeIsSaid) {
  ASSERT_TRUE(WriteFile(At("file"), "x").ok());
  EXPECT_TRUE(MakeFolder(At("a/b")).ok());
  EXPECT_TRUE(MakeFolder(At("a/b")).ok());
  EXPECT_THAT(MakeFolder(At("file/b")).message(),
              HasSubstr("cannot make the folder " + At("file/b") + ": "));
  EXPECT_THAT(OutputFolder::Make(At("file/b"), ".making-").message(),
              HasSubstr("cannot make the folder " + At("file/b.making-")));
}

TEST(IsProcessGone, TellsThoseThatAreThere) {
  EXPECT_FALSE(IsProcessGone(getpid()));
  EXPECT_FALSE(IsProcessGone(1));
  EXPECT_TRUE(IsProcessGone(NumberOfGone()));
  EXPECT_FALSE(IsProcessGone(0));
  EXPECT_FALSE(IsProcessGone(-1));
}

}  // namespace
}  // namespace shardscope
