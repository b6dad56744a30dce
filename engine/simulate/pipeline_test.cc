// The bubble of a pipeline, against the formulas of its papers.
#include <gtest/gtest.h>

#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "engine/simulate/simulate.h"

namespace shardscope::simulate {
namespace {

using plan::OpKind;
using plan::PipelineSchedule;

struct Bubble {
  double share = 0;     // of the time until the last backward has ended
  int64_t last_ns = 0;  // when that is
};

// Forwards alone have a bubble of s - 1 forwards, however many micro-batches follow (GPipe, section
// 2.3), in the order of every schedule.
TEST(EvaluationPipelineTest, TakesItsMicroBatchesAndTheWayThroughAllStages) {
  constexpr int64_t kForwardNs = 1'000'000;
  for (const int ranks : {2, 4}) {
    for (const PipelineSchedule order : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B}) {
      constexpr int kMicroBatches = 8;
      plan::Policy policy;
      policy.strategy = plan::FindStrategy("pipeline");
      policy.mesh = policy.strategy->MeshOf(ranks);
      policy.units.stages = ranks;
      policy.pipeline = order;
      policy.micro_batches = kMicroBatches;
      const Result<plan::Schedule> schedule =
          plan::BuildEvaluation(plan::UniformModel(ranks, false, ranks), policy);
      ASSERT_TRUE(schedule.ok()) << schedule.message();
      StepInput input;
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<OpCost>& costs = input.costs.emplace_back();
        for (const plan::Op& op : schedule->ProgramOf(rank).ops) {
          const bool is_block =
              op.kind == OpKind::kForward &&
              schedule->segments[static_cast<size_t>(op.segment)].name.ends_with(".mlp");
          costs.push_back({.duration_ns = is_block ? kForwardNs : 0});
        }
      }
      input.start_ns.assign(static_cast<size_t>(ranks), 0);
      const Result<StepTimes> times = SimulateStep(*schedule, input);
      ASSERT_TRUE(times.ok()) << times.message();
      int64_t end_ns = 0;
      for (const auto& of_rank : *times) {
        for (const auto& op : of_rank) end_ns = std::max(end_ns, op.ended_ns);
      }
      EXPECT_EQ(end_ns, (kMicroBatches + ranks - 1) * kForwardNs);
    }
  }
}

// Stages that take as long as each other, forward and back, and exchanges that take no time.
Bubble BubbleOf(PipelineSchedule order, int ranks, int micro_batches, int chunks) {
  constexpr int64_t kBlockNs = 1'000'000;
  plan::Policy policy;
  policy.strategy =
      plan::FindStrategy(order == PipelineSchedule::kOneByOne ? "model_parallel" : "pipeline");
  policy.mesh = policy.strategy->MeshOf(ranks);
  policy.units.stages = ranks * chunks;
  policy.pipeline = order;
  policy.micro_batches = micro_batches;
  const Result<plan::Schedule> schedule = plan::BuildSchedule(
      plan::UniformModel(policy.units.stages, false, policy.units.stages), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  if (!schedule.ok()) return {};
  StepInput input;
  int64_t busy_ns = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<OpCost>& costs = input.costs.emplace_back();
    for (const plan::Op& op : schedule->ProgramOf(rank).ops) {
      const bool is_block =
          plan::TraitsOf(op.kind).runs_segment &&
          schedule->segments[static_cast<size_t>(op.segment)].name.ends_with(".mlp");
      costs.push_back({.duration_ns = is_block ? kBlockNs : 0});
      if (rank == 0 && is_block) busy_ns += kBlockNs;
    }
  }
  input.start_ns.assign(static_cast<size_t>(ranks), 0);
  const Result<StepTimes> times = SimulateStep(*schedule, input);
  EXPECT_TRUE(times.ok()) << times.message();
  if (!times.ok()) return {};
  Bubble bubble;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& ops = schedule->ProgramOf(rank).ops;
    for (size_t op = 0; op < ops.size(); ++op) {
      if (ops[op].kind != OpKind::kBackward) continue;
      bubble.last_ns = std::max(bubble.last_ns, (*times)[static_cast<size_t>(rank)][op].ended_ns);
    }
  }
  bubble.share = 1 - static_cast<double>(busy_ns) / static_cast<double>(bubble.last_ns);
  return bubble;
}

TEST(PipelineBubble, IsThatOfTheFormulas) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int micro_batches : {1, 2, 4, 8}) {
      const double stages = ranks;
      const double formula = (stages - 1) / (micro_batches + stages - 1);
      EXPECT_NEAR(BubbleOf(PipelineSchedule::kGpipe, ranks, micro_batches, 1).share, formula, 1e-9);
      EXPECT_NEAR(BubbleOf(PipelineSchedule::k1F1B, ranks, micro_batches, 1).share, formula, 1e-9);
      // One micro-batch at a time: all but one rank idle.
      EXPECT_NEAR(BubbleOf(PipelineSchedule::kOneByOne, ranks, micro_batches, 1).share,
                  1 - 1 / stages, 1e-9);
    }
  }
}

TEST(PipelineBubble, ShrinksWithTheStagesOfARank) {
  for (const int ranks : {2, 4}) {
    for (const int chunks : {2, 3}) {
      const int micro_batches = 2 * ranks;
      const double formula =
          (ranks - 1.0) / (static_cast<double>(chunks) * micro_batches + ranks - 1.0);
      EXPECT_NEAR(BubbleOf(PipelineSchedule::kInterleaved, ranks, micro_batches, chunks).share,
                  formula, 1e-9)
          << ranks << " ranks, " << chunks << " stages on each";
    }
  }
}

}  // namespace
}  // namespace shardscope::simulate
