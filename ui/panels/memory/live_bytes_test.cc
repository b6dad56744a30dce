// What stands beside the time lens's line in Memory.
#include "ui/panels/memory/live_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::panels {
namespace {

using query::MemoryCategory;
using testing::HasSubstr;

TEST(LiveLines, WithoutRoomForAllTheLargestStayInOrderAndTheRestIsSummed) {
  analysis::RankMoment moment;
  const auto live = [&moment](MemoryCategory category) -> int64_t& {
    return moment.live[static_cast<size_t>(category)];
  };
  live(MemoryCategory::kActivation) = 2'000'000;
  live(MemoryCategory::kGradient) = 100'000;
  live(MemoryCategory::kOptimizer) = 9'000'000;  // stays: behind what comes and goes
  live(MemoryCategory::kParameterShard) = 300'000;
  const auto lines = [&moment](size_t most) {
    return LiveLines(ui::Language::kEnglish, moment, most);
  };
  const std::vector<std::string> all = lines(4);
  ASSERT_EQ(all.size(), 4u);
  for (const std::string& line : all) EXPECT_EQ(line.find("more"), std::string::npos);

  const std::vector<std::string> some = lines(3);
  ASSERT_EQ(some.size(), 3u);
  EXPECT_THAT(some[0], HasSubstr("2.00 MB"));
  EXPECT_THAT(some[1], HasSubstr("9.00 MB"));
  EXPECT_EQ(some[2], "and 2 more, 400 kB");
  EXPECT_THAT(lines(1), testing::ElementsAre("and 4 more, 11.4 MB"));
  EXPECT_TRUE(lines(0).empty());
}

}  // namespace
}  // namespace shardscope::panels
