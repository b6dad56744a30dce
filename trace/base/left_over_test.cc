#include "trace/base/left_over.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "trace/base/parse_number.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

TEST(LeftOverTest, WhatIsOfProcessesThatAreGoneIsRemoved) {
  std::string pattern = testing::TempDir() + "left_over_XXXXXX";
  const fs::path folder = mkdtemp(pattern.data());
  const std::string gone = std::to_string(std::numeric_limits<pid_t>::max());
  const std::string living = std::to_string(getpid());
  std::ofstream(folder / ("file-" + gone)) << "x";
  fs::create_directory(folder / ("folder-" + gone));
  std::ofstream(folder / ("folder-" + gone) / "file") << "x";
  std::ofstream(folder / ("file-" + living)) << "x";
  std::ofstream(folder / gone) << "x";
  const auto process_of = [](std::string_view name) -> std::optional<pid_t> {
    const size_t dash = name.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    return ParseInteger<pid_t>(name.substr(dash + 1));
  };
  RemoveLeftOver(folder, process_of);
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre("file-" + living, gone));
  fs::remove_all(folder);
  RemoveLeftOver(folder, process_of);
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace shardscope
