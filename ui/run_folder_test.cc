#include "ui/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shardscope::ui {
namespace {

using ::testing::HasSubstr;

TEST(WhyFolderIsTaken, SaysWhatARunWouldWriteTo) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("why-taken-" + std::to_string(getpid()));
  const auto why = [&] { return WhyFolderIsTaken(Language::kEnglish, folder.string()); };
  EXPECT_EQ(why(), "");
  std::filesystem::create_directories(folder);
  EXPECT_EQ(why(), "");
  std::ofstream(folder / "log.txt") << "mine";
  EXPECT_THAT(why(), HasSubstr("'log.txt'"));
  std::ofstream(folder / "trace-host-1.db") << "theirs";
  EXPECT_THAT(why(), HasSubstr("holds a run already"));
  EXPECT_NE(WhyFolderIsTaken(Language::kChinese, folder.string()), why());
  EXPECT_THAT(WhyFolderIsTaken(Language::kEnglish, (folder / "log.txt").string()),
              HasSubstr("choose another folder"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::ui
