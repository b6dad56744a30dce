#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

namespace fs = std::filesystem;
using Settings = std::map<std::string, std::string>;

TEST(Paths, RelativeOnesBecomeAbsolute) {
  Config config;
  ASSERT_TRUE(config
                  .SetAll({{"model.path", "folder/../none"},
                           {"data.path", "./some text.txt"},
                           {"eval.path", "/held/./out"},
                           {"data.tokenizer", "bytes"},
                           {"run.name", "a"}})
                  .ok());
  MakePathsAbsolute(&config);
  const std::string here = fs::current_path().string();
  EXPECT_EQ(config.Get("model.path"), here + "/none");
  EXPECT_EQ(config.Get("data.path"), here + "/some text.txt");
  EXPECT_EQ(config.Get("eval.path"), "/held/./out");
  EXPECT_EQ(config.Get("data.tokenizer"), "bytes");
  EXPECT_EQ(config.Get("run.name"), "a");
  EXPECT_EQ(config.Get("lora.path"), "");
  EXPECT_FALSE(config.IsExplicit("lora.path"));
}

TEST(Paths, RelativeOnesOfChangesBecomeAbsolute) {
  Config config;
  config.AddChange({.share = "1/2", .set = {{"schedule.file", "./mine.txt"}}});
  config.AddChange({.step = 1, .set = {{"schedule.file", "/a/./b"}, {"prefetch.forward", "2"}}});
  config.AddChange({.step = 1, .set = {{"schedule.file", ""}}});
  MakePathsAbsolute(&config);
  ASSERT_EQ(config.changes().size(), 3U);
  EXPECT_EQ(config.changes()[0].set,
            (Settings{{"schedule.file", "/a/./b"}, {"prefetch.forward", "2"}}));
  EXPECT_EQ(config.changes()[1].set, (Settings{{"schedule.file", ""}}));
  EXPECT_EQ(config.changes()[2].share, "1/2");
  EXPECT_EQ(config.changes()[2].set,
            (Settings{{"schedule.file", (fs::current_path() / "mine.txt").string()}}));
}

TEST(Paths, BehindALinkDotsLeadElsewhere) {
  const fs::path root = fs::temp_directory_path() / ("paths-" + std::to_string(getpid()));
  const fs::path before = fs::current_path();
  fs::create_directories(root / "far/away");
  fs::create_directories(root / "far/data");
  fs::create_directory_symlink(root / "far/away", root / "link");
  fs::current_path(root);
  Config config;
  EXPECT_TRUE(config.Set("data.path", "link/../data").ok());
  MakePathsAbsolute(&config);
  fs::current_path(before);
  EXPECT_TRUE(fs::equivalent(config.Get("data.path"), root / "far/data"));
  fs::remove_all(root);
}

}  // namespace
}  // namespace shardscope::config
