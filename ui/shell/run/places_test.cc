#include "ui/shell/run/places.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace shardscope::shell {
namespace {

namespace fs = std::filesystem;

class PlacesTest : public testing::Test {
 protected:
  PlacesTest() : before_(fs::current_path()) {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::current_path(folder_);
  }
  ~PlacesTest() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  static void Touch(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  static std::vector<std::string> Names(const ui::Places& places) {
    std::vector<std::string> names;
    for (const ui::RunEntry& run : places.runs) names.push_back(run.name);
    return names;
  }

  const fs::path before_;
  fs::path folder_;
};

TEST_F(PlacesTest, ListsTrainingsAndRecordedProgramsOfThisFolder) {
  Touch("runs/trained/run.toml");
  Touch("runs/recorded/trace-host-7.db");
  Touch("runs/empty/notes.txt");
  EXPECT_THAT(Names(FindPlaces({}, "")), testing::UnorderedElementsAre("trained", "recorded"));
}

TEST_F(PlacesTest, RecentRunsStandFirstAndOnce) {
  Touch("runs/a/run.toml");
  Touch("elsewhere/b/run.toml");
  const ui::Places places = FindPlaces({"elsewhere/b", "gone", "runs/a"}, "");
  EXPECT_THAT(Names(places), testing::ElementsAre("b", "a"));
}

}  // namespace
}  // namespace shardscope::shell
