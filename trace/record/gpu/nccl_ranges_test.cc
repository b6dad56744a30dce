#include "trace/record/gpu/nccl_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/base/time.h"

namespace shardscope::gpu {
namespace {

using testing::ElementsAre;

std::vector<std::string> Names(const std::vector<NcclRange>& ranges) {
  std::vector<std::string> names;
  for (const NcclRange& range : ranges) names.push_back(range.name);
  return names;
}

TEST(NcclRanges, OnlyThoseThatTookMemoryComeOut) {
  NcclRanges ranges;
  ranges.Took(150);
  ranges.Took(400);
  ranges.Add({{1, 100, 200, "at its middle"},
              {1, 210, 390, "between"},
              {1, 400, 410, "at its start"},
              {2, 390, 400, "at its end"}});
  EXPECT_THAT(Names(ranges.Take(1000)), ElementsAre("at its middle", "at its start", "at its end"));
  EXPECT_TRUE(ranges.Take(1000).empty());
}

// What a long call took is told before the call has ended, and records may be late.
TEST(NcclRanges, EitherMayComeFirst) {
  NcclRanges ranges;
  ranges.Took(10);
  EXPECT_TRUE(ranges.Take(500).empty());
  ranges.Add({{1, 5, 600, "long"}, {1, 700, 800, "late"}});
  EXPECT_THAT(Names(ranges.Take(1000)), ElementsAre("long"));
  ranges.Took(750);
  EXPECT_THAT(Names(ranges.Take(2000)), ElementsAre("late"));
}

TEST(NcclRanges, NothingIsKeptForEver) {
  NcclRanges ranges;
  ranges.Add({{1, 100, 200, "idle"}});
  EXPECT_TRUE(ranges.Take(10 * kNsPerSecond).empty());
  ranges.Took(150);  // it is not waited for any more
  EXPECT_TRUE(ranges.Take(11 * kNsPerSecond).empty());
  for (int64_t i = 0; i < 100'000; ++i) ranges.Took(1000 + i);
  ranges.Add({{1, 1000, 1001, "long ago"}, {1, 100'000, 100'001, "now"}});
  EXPECT_THAT(Names(ranges.Take(kNsPerSecond)), ElementsAre("now"));
}

}  // namespace
}  // namespace shardscope::gpu
