// What the panel Blocks asks for while the time lens plays, and what stands in its tiles.
#include "ui/blocks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>

#include "trace/base/time.h"

namespace shardscope::ui {
namespace {

TEST(WantedBlocks, IsTheMomentOfTheLens) {
  Context context;
  context.blocks.rank = 2;
  context.blocks.at_ns = 5;
  context.lens.is_on = true;
  context.lens.start_ns = 100;
  context.lens.end_ns = 900;
  context.lens.now_ns = 457;
  const std::optional<query::BlocksQuery> wanted = WantedBlocks(context);
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->rank, 2);
  EXPECT_EQ(wanted->at_ns, 457);
}

TEST(WantedBlocks, WhileTheLensPlaysItFollowsAFewTimesASecond) {
  Context context;
  context.blocks.rank = 0;
  context.blocks.at_ns = 0;
  context.lens.is_on = true;
  context.lens.plays = true;
  context.lens.slowness = 100;
  context.lens.start_ns = 7 * kNsPerMs;
  constexpr int64_t kFrames = 600;  // ten seconds
  context.lens.end_ns = context.lens.start_ns + 100 * kNsPerMs;
  std::set<int64_t> moments;
  for (int64_t frame = 0; frame < kFrames; ++frame) {
    context.lens.now_ns = context.lens.start_ns + frame * 100 * kNsPerMs / kFrames;
    const std::optional<query::BlocksQuery> wanted = WantedBlocks(context);
    ASSERT_TRUE(wanted);
    EXPECT_LE(wanted->at_ns, context.lens.now_ns);
    EXPECT_GT(wanted->at_ns, context.lens.now_ns - 4 * kNsPerMs);  // 0.4 s of watching
    EXPECT_GE(wanted->at_ns, context.lens.start_ns);
    moments.insert(wanted->at_ns);
  }
  EXPECT_GE(moments.size(), 20u);
  EXPECT_LE(moments.size(), 50u);
  context.lens.plays = false;
  EXPECT_EQ(WantedBlocks(context)->at_ns, context.lens.now_ns);
}

TEST(BlocksBetween, IsOfTheRankThatIsShownOrOfNone) {
  Context context;
  context.blocks.rank = 0;
  context.blocks.at_ns = 180;
  for (const std::optional<int32_t> rank : {std::optional<int32_t>(0), std::optional<int32_t>()}) {
    const std::optional<BlocksState> before = BlocksBetween(context, 140, rank);
    ASSERT_TRUE(before);
    EXPECT_EQ(before->rank, 0);
    EXPECT_EQ(before->since_ns, 140);
    EXPECT_EQ(before->at_ns, 180);
    const std::optional<BlocksState> after = BlocksBetween(context, 200, rank);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->rank, 0);
    EXPECT_EQ(after->since_ns, 180);
    EXPECT_EQ(after->at_ns, 200);
  }
  EXPECT_FALSE(BlocksBetween(context, 140, 1));
  EXPECT_FALSE(BlocksBetween(context, 200, 1));
  EXPECT_TRUE(BlocksBetween(context, std::nullopt, std::nullopt));
}

TEST(BlocksBetween, BeforeAMomentWasChosenItIsOfTheRankWhereTheFirstOneIs) {
  const std::optional<BlocksState> chosen = BlocksBetween(Context(), 140, 1);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->rank, 1);
  EXPECT_EQ(chosen->since_ns, 140);
}

TEST(BlockLabel, SaysWhoAskedForItWhereItHasNoUnit) {
  query::LiveBlock block;
  const auto label = [&block] { return BlockLabel(Language::kEnglish, block); };
  block.category = query::MemoryCategory::kActivation;
  EXPECT_EQ(label(), "activation");
  block.allocated_by = "F block0";
  EXPECT_EQ(label(), "F block0");
  block.stack = "forward (model.py:12)\nmain (train.py:3)";
  EXPECT_EQ(label(), "forward (model.py:12)");
  block.unit = "block0.mlp";
  EXPECT_EQ(label(), "block0.mlp");
}

}  // namespace
}  // namespace shardscope::ui
