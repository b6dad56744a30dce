#include "ui/timeline/steps.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::timeline {
namespace {

class StepsTest : public testing::Test {
 protected:
  StepsTest() : forward_(test_.Plan("forward", "forward", "", "block0.mlp")) {}
  void Finish(int32_t step, int64_t start_ns, int64_t end_ns) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      test_.Run(rank, step, forward_, start_ns + rank, end_ns - 1);
      test_.Step(rank, step, start_ns + rank, end_ns + rank);
    }
  }

  analysis::TestSnapshot test_{2};
  const query::PlanOpId forward_;
};

TEST_F(StepsTest, TheStepThatGoesOnBeginsAtItsFirstOp) {
  EXPECT_FALSE(RecordedSteps(*test_.Build()));
  test_.Run(0, 0, forward_, 10, 20);
  // The first step alone: it has a beginning and a number before any step has ended.
  EXPECT_EQ(UnfinishedStep(test_.Build()->ranks[0]), (StepSpan{0, 10, 20}));
  EXPECT_FALSE(UnfinishedStep(test_.Build()->ranks[1]));
  EXPECT_EQ(FindStep(*test_.Build(), 0), (StepSpan{0, 10, 20}));
  test_.Step(0, 0, 9, 21);
  test_.Run(0, 1, forward_, 30, 40);
  test_.Run(0, 0, forward_, 19, 21);  // comes late, from another thread
  test_.Run(0, 1, forward_, 40, 55);
  EXPECT_EQ(UnfinishedStep(test_.Build()->ranks[0]), (StepSpan{1, 30, 55}));
  test_.Step(0, 1, 29, 56);
  EXPECT_FALSE(UnfinishedStep(test_.Build()->ranks[0]));
}

TEST_F(StepsTest, AStepIsWhatAllRanksDidOfIt) {
  Finish(3, 100, 200);
  Finish(4, 210, 300);
  Finish(7, 310, 400);  // the ones between were not recorded
  test_.Run(1, 8, forward_, 410, 420);
  const query::SnapshotPtr snapshot = test_.Build();
  EXPECT_EQ(FindStep(*snapshot, 4), (StepSpan{4, 210, 301}));
  EXPECT_EQ(FindStep(*snapshot, 8), (StepSpan{8, 410, 420}));
  EXPECT_FALSE(FindStep(*snapshot, 5));
  EXPECT_FALSE(FindStep(*snapshot, 9));
  EXPECT_EQ(RecordedSteps(*snapshot), std::pair(3, 8));
  EXPECT_EQ(FinishedSteps(*snapshot).size(), 3u);
  EXPECT_TRUE(IsStepWithin(*snapshot, 4, 250, 280));
  EXPECT_FALSE(IsStepWithin(*snapshot, 4, 301, 400));
  EXPECT_FALSE(IsStepWithin(*snapshot, 5, 0, 400));
}

}  // namespace
}  // namespace shardscope::timeline
