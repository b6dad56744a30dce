#include "trace/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "trace/base/file_size_limit_test_util.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    std::string pattern = testing::TempDir() + "output_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ / name; }
  static std::string Text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t NumFiles() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat file = {};
    return stat(path.c_str(), &file) == 0 ? file.st_mode & 07777 : 0;
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, WhatProcessesThatAreGoneHaveLeftIsRemoved) {
  const std::string gone = std::to_string(std::numeric_limits<pid_t>::max());
  const std::string living = ".shardscope-" + std::to_string(getppid()) + "-1.partial";
  auto own = OutputFile::Create(At("file"));
  ASSERT_TRUE(own.ok()) << own.message();
  for (const std::string& name :
       {".shardscope-" + gone + "-1.partial", ".shardscope-" + gone + "-23.partial", living,
        ".shardscope-" + gone + "-1.other", std::string(".shardscope-x-1.partial")}) {
    std::ofstream(At(name)) << "x";
  }
  OutputFile::RemoveLeft(folder_);
  EXPECT_EQ(NumFiles(), 4u);
  EXPECT_TRUE(fs::exists(At(living)));
  EXPECT_FALSE(fs::exists(At(".shardscope-" + gone + "-23.partial")));
  EXPECT_TRUE(own->Close().ok());
  OutputFile::RemoveLeft(At("not there"));
}

TEST_F(OutputFileTest, AFileIsThereWhenItIsWhole) {
  const std::string path = At("file");
  ASSERT_TRUE(WriteFile(path, "old").ok());
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.message();
  ASSERT_TRUE(file->Write("ne").ok());
  ASSERT_TRUE(file->Write("w").ok());
  EXPECT_EQ(Text(path), "old");
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Text(path), "new");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(OutputFileTest, WhatIsNotClosedWasNeverThere) {
  const std::string path = At("file");
  ASSERT_TRUE(WriteFile(path, "old").ok());
  ASSERT_TRUE(OutputFile::Create(path)->Write("new").ok());
  EXPECT_EQ(Text(path), "old");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(OutputFileTest, APublishedFileGrowsInItsPlace) {
  const std::string path = At("file");
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.message();
  ASSERT_TRUE(file->Write("1\n").ok());
  ASSERT_TRUE(file->Publish().ok());
  EXPECT_EQ(Text(path), "1\n");
  ASSERT_TRUE(file->Write("2\n").ok());
  EXPECT_EQ(Text(path), "1\n2\n");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(OutputFileTest, ALinkStaysAndItsFileIsReplaced) {
  fs::create_directory(At("far"));
  fs::create_symlink("far/second", At("first"));
  fs::create_symlink(At("far/file"), At("far/second"));
  ASSERT_TRUE(WriteFile(At("first"), "new").ok());  // through two links, to what is not there yet
  ASSERT_TRUE(WriteFile(At("first"), "newer").ok());
  EXPECT_TRUE(fs::is_symlink(At("first")));
  EXPECT_TRUE(fs::is_symlink(At("far/second")));
  EXPECT_FALSE(fs::is_symlink(At("far/file")));
  EXPECT_EQ(Text(At("far/file")), "newer");
}

TEST_F(OutputFileTest, TheModeIsTheOldFilesOrTheUmasks) {
  const mode_t before = umask(027);
  ASSERT_TRUE(WriteFile(At("fresh"), "x").ok());
  umask(before);
  EXPECT_EQ(ModeOf(At("fresh")), 0640u);
  ASSERT_EQ(chmod(At("fresh").c_str(), 0755), 0);
  ASSERT_TRUE(WriteFile(At("fresh"), "y").ok());
  EXPECT_EQ(ModeOf(At("fresh")), 0755u);
}

TEST_F(OutputFileTest, DevicesAreWrittenThrough) {
  struct stat before = {};
  struct stat after = {};
  ASSERT_EQ(stat("/dev/null", &before), 0);
  EXPECT_TRUE(WriteFile("/dev/null", "gone").ok());
  fs::create_symlink("/dev/null", At("link"));
  EXPECT_TRUE(WriteFile(At("link"), "gone").ok());
  ASSERT_EQ(stat("/dev/null", &after), 0);
  EXPECT_TRUE(S_ISCHR(after.st_mode));
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_TRUE(fs::is_symlink(At("link")));
  const Status full = WriteFile("/dev/full", "x");
  EXPECT_THAT(full.message(), testing::AllOf(HasSubstr("/dev/full: No space left on device"),
                                             testing::EndsWith("; make room on its disk")));
}

TEST_F(OutputFileTest, APipeIsWrittenThroughAndItsReaderWaitedFor) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0666), 0);
  std::string read;
  std::thread reader([&] { read = Text(At("pipe")); });
  const std::string much(200'000, 'x');  // more than a pipe holds
  EXPECT_TRUE(WriteFile(At("pipe"), much).ok());
  reader.join();
  EXPECT_EQ(read, much);
  EXPECT_TRUE(fs::is_fifo(At("pipe")));
}

TEST_F(OutputFileTest, APipeThatNobodyReadsIsGivenUp) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0666), 0);
  EXPECT_THAT(WriteFile(At("pipe"), "x").message(), HasSubstr("nobody reads this pipe"));
}

// /dev/stdout where that is a file: its other writers keep it.
TEST_F(OutputFileTest, StandardOutputIsNeverReplaced) {
  const int saved = dup(STDOUT_FILENO);
  const int file = open(At("out").c_str(), O_WRONLY | O_CREAT, 0666);
  ASSERT_EQ(write(file, "before ", 7), 7);
  dup2(file, STDOUT_FILENO);
  const Status through = WriteFile("/dev/stdout", "this ");
  const Status by_name = WriteFile(At("out"), "that ");
  dup2(saved, STDOUT_FILENO);
  close(saved);
  ASSERT_TRUE(through.ok()) << through.message();
  ASSERT_TRUE(by_name.ok()) << by_name.message();
  ASSERT_EQ(write(file, "after", 5), 5);
  EXPECT_TRUE(WriteFile("/proc/self/fd/" + std::to_string(file), "!").ok());
  close(file);
  EXPECT_EQ(Text(At("out")), "before this that after!");
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsSaidBefore) {
  fs::create_directory(At("folder"));
  fs::create_symlink("circle", At("circle"));
  for (const auto& [path, reason] : std::initializer_list<std::pair<std::string, std::string>>{
           {At("folder"), "it is a folder"},
           {At("circle"), "circle"},
           {At("nowhere/file"), "nowhere: No such file or directory"},
           {At("folder/new/"), "No such file"},
           {"", "No such file"}}) {
    EXPECT_THAT(OutputFile::Check(path).message(),
                testing::AllOf(HasSubstr("cannot write " + path + ": "), HasSubstr(reason)));
    EXPECT_FALSE(OutputFile::Create(path).ok()) << path;
  }
  EXPECT_TRUE(OutputFile::Check(At("new")).ok());
  EXPECT_TRUE(OutputFile::Check("/dev/null").ok());
  EXPECT_EQ(NumFiles(), 2u);
}

// The limit of a file's size stands for a disk that gets full in the middle.
TEST_F(OutputFileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  ASSERT_TRUE(WriteFile(At("file"), "old").ok());
  Status status;
  {
    const FileSizeLimit limit(4096);
    status = WriteFile(At("file"), std::string(10'000, 'x'));
  }
  EXPECT_THAT(status.message(), HasSubstr("cannot write " + At("file") + ": File too large"));
  EXPECT_EQ(Text(At("file")), "old");
  EXPECT_EQ(NumFiles(), 1u);
}

}  // namespace
}  // namespace shardscope
