#include "ui/timeline/shown_steps.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::timeline {
namespace {

using analysis::Scope;
using analysis::ScopeKind;

constexpr int32_t kSteps = 6;

// Steps of 100 ns with 10 ns between them; rank 1 ends each 5 ns later. One op in the middle of
// each.
class ShownStepsTest : public testing::Test {
 protected:
  ShownStepsTest() : test_(2) {
    const query::PlanOpId op = test_.Plan("forward", "forward", "", "block0.mlp");
    for (int32_t step = 0; step < kSteps; ++step) {
      for (int32_t rank = 0; rank < 2; ++rank) {
        const int64_t start_ns = 110 * step;
        first_op_[rank].push_back(test_.Run(rank, step, op, start_ns + 40, start_ns + 60).id);
        test_.Step(rank, step, start_ns, start_ns + 100 + 5 * rank);
      }
    }
    context_.snapshot = test_.Build();
  }
  Scope Wanted(ScopeKind kind) {
    context_.focus.scope = Scope{.kind = kind};
    return WantedScope(context_);
  }
  std::pair<int32_t, int32_t> InView(int64_t start_ns, int64_t end_ns) {
    context_.view = {start_ns, end_ns, false};
    const Scope scope = Wanted(ScopeKind::kInView);
    return {scope.first, scope.last};
  }

  analysis::TestSnapshot test_;
  std::vector<query::OpRunId> first_op_[2];
  ui::Context context_;
};

TEST_F(ShownStepsTest, InViewAreTheStepsThatLieInItWholeOnAllRanks) {
  EXPECT_EQ(InView(0, 1000), std::pair(0, kSteps - 1));
  EXPECT_EQ(InView(1, 325), std::pair(1, 2));
  EXPECT_EQ(InView(110, 324), std::pair(1, 1));  // rank 1 ends step 2 at 325
}

TEST_F(ShownStepsTest, WithoutAWholeStepInViewItIsThatAtTheCentre) {
  EXPECT_EQ(InView(120, 200), std::pair(1, 1));
  EXPECT_EQ(InView(150, 350), std::pair(2, 2));
  EXPECT_EQ(InView(-500, -400), std::pair(0, 0));
  EXPECT_EQ(InView(5000, 6000), std::pair(kSteps - 1, kSteps - 1));
}

TEST_F(ShownStepsTest, OfTheSelectionAreThoseFromItsFirstOpToItsLast) {
  EXPECT_EQ(Wanted(ScopeKind::kSelection).last, -1);  // nothing is selected
  context_.selection.op_run = first_op_[0][4];
  EXPECT_EQ(Wanted(ScopeKind::kSelection).first, 4);
  EXPECT_EQ(Wanted(ScopeKind::kSelection).last, 4);
  context_.selection.also = {{first_op_[1][2], 1}};
  EXPECT_EQ(Wanted(ScopeKind::kSelection).first, 2);
  EXPECT_EQ(Wanted(ScopeKind::kSelection).last, 4);
}

// Of no op, on a rank that began the step before 100 ns late.
TEST(SelectedWorkTest, IsOfTheStepOfItsOwnRank) {
  analysis::TestSnapshot test(2);
  for (int32_t step = 0; step < 3; ++step) {
    test.Step(0, step, 100 * step, 100 * step + 100);
    test.Step(1, step, 100 * step + 100, 100 * step + 200);
  }
  for (query::RankRows& rows : test.snapshot().ranks) {
    query::GpuWork work;
    work.id = query::SpanId(7 + rows.rank);
    work.start_ns = 220;
    work.end_ns = 240;
    work.step = -1;
    rows.gpu_work.Append(work);
  }
  ui::Context context;
  context.snapshot = test.Build();
  context.view = {0, 400, false};
  context.focus.scope = Scope{.kind = ScopeKind::kSelection};
  for (const auto& [rank, step] : {std::pair(0, 2), std::pair(1, 1)}) {
    context.selection = {query::OpRunId::None(), rank, {}, query::SpanId(7 + rank)};
    EXPECT_EQ(FocusedStep(context), step) << rank;
    EXPECT_EQ(WantedScope(context).first, step) << rank;
    EXPECT_EQ(WantedScope(context).last, step) << rank;
  }
}

TEST_F(ShownStepsTest, UnlessChosenTheRunsStateSays) {
  context_.focus.scope.reset();
  EXPECT_EQ(WantedScope(context_).kind, ScopeKind::kWholeRun);
  test_.snapshot().state = query::TraceState::kLive;
  context_.snapshot = test_.Build();
  EXPECT_EQ(WantedScope(context_).kind, ScopeKind::kSinceChange);
}

TEST_F(ShownStepsTest, TheFocusIsTheSelectedOpsStepWhileThatIsInView) {
  context_.view = {0, 200, false};
  context_.selection.op_run = first_op_[0][1];
  EXPECT_EQ(FocusedStep(context_), 1);
  context_.view = {330, 430, false};
  EXPECT_EQ(FocusedStep(context_), 3);
}

TEST_F(ShownStepsTest, BehindAllFinishedStepsOfALiveRunIsTheOneThatRuns) {
  EXPECT_EQ(StepAt(*context_.snapshot, 10'000), kSteps - 1);
  test_.snapshot().state = query::TraceState::kLive;
  EXPECT_EQ(StepAt(*test_.Build(), 10'000), kSteps);
  EXPECT_EQ(StepAt(*analysis::TestSnapshot(1).Build(), 10'000), -1);
}

}  // namespace
}  // namespace shardscope::timeline
