#include "engine/runtime/checkpoint/checkpoint_plan.h"

#include <gtest/gtest.h>

namespace shardscope::runtime {
namespace {

TEST(CheckpointPlanTest, HasOneAtMultiplesAndAtTheEnd) {
  const CheckpointPlan plan(/*first_step=*/0, /*num_ranks=*/1);
  EXPECT_TRUE(plan.IsDue(0, 10, /*every=*/5, /*is_end=*/false));
  EXPECT_FALSE(plan.IsDue(0, 12, 5, false));
  EXPECT_TRUE(plan.IsDue(0, 12, 5, /*is_end=*/true));
  EXPECT_TRUE(plan.IsDueAtEnd(12, 5));
}

TEST(CheckpointPlanTest, HasNoneWithoutAnInterval) {
  const CheckpointPlan plan(0, 1);
  EXPECT_FALSE(plan.IsDue(0, 10, /*every=*/0, false));
  EXPECT_FALSE(plan.IsDue(0, 10, 0, true));
  EXPECT_FALSE(plan.IsDueAtEnd(10, 0));
}

TEST(CheckpointPlanTest, HasNoneOfWhatTheRunBeganWith) {
  const CheckpointPlan plan(/*first_step=*/10, 1);
  EXPECT_FALSE(plan.IsDue(0, 10, 5, false));
  EXPECT_FALSE(plan.IsDue(0, 10, 5, true));
  EXPECT_FALSE(plan.IsDueAtEnd(10, 5));
  EXPECT_TRUE(plan.IsDue(0, 15, 5, false));
}

TEST(CheckpointPlanTest, EachRankSavesAStateOnce) {
  CheckpointPlan plan(0, 2);
  plan.SetSaved(0, 10);
  EXPECT_FALSE(plan.IsDue(0, 10, 5, false));
  EXPECT_FALSE(plan.IsDue(0, 10, 5, true));
  EXPECT_TRUE(plan.IsDue(1, 10, 5, false));
  EXPECT_TRUE(plan.IsDue(0, 15, 5, false));
  EXPECT_TRUE(plan.IsDueAtEnd(10, 5));  // it is there
}

}  // namespace
}  // namespace shardscope::runtime
