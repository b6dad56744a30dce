#include "engine/runtime/step_observer.h"

#include <gtest/gtest.h>

#include "engine/runtime/auto_bandwidth.h"
#include "engine/runtime/segment_times.h"

namespace shardscope::runtime {
namespace {

// Two units with one segment each; ops: forward of each, a collective, an optimizer.
plan::Schedule SmallSchedule() {
  plan::Schedule schedule;
  schedule.segments = {{.name = "embedding", .units = {0}},
                       {.name = "block0.attention", .units = {1}},
                       {.name = "block0.mlp", .units = {1}}};
  schedule.units = {{.name = "embedding"}, {.name = "block0"}};
  plan::Program program;
  for (int32_t segment = 0; segment < 3; ++segment) {
    plan::Op op;
    op.kind = plan::OpKind::kForward;
    op.segment = segment;
    op.micro_batch = 0;
    program.ops.push_back(op);
  }
  plan::Op gather;
  gather.kind = plan::OpKind::kAllGather;
  gather.unit = 1;
  gather.wire_bytes = 6000;
  program.ops.push_back(gather);
  schedule.programs = {program};
  schedule.program_of_rank = {0};
  return schedule;
}

StepTimes Observe(const plan::Schedule& schedule) {
  StepObserver observer(1);
  const auto end = [&](plan::OpIndex index, int64_t start_ns, int64_t end_ns) {
    executor::OpContext context;
    context.schedule = &schedule;
    context.program = &schedule.programs[0];
    context.index = index;
    executor::OpTimes times;
    times.issued_ns = start_ns - 5;
    times.started_ns = start_ns;
    times.ended_ns = end_ns;
    observer.OnOpEnd(context, times);
  };
  end(3, 100, 400);
  end(0, 100, 200);
  end(1, 300, 380);
  end(2, 500, 620);
  const StepTimes times = observer.Take(0);
  EXPECT_EQ(observer.Take(0).communication_ns, 0);  // taken
  return times;
}

TEST(StepObserverTest, SeparatesHiddenFromExposedAndSumsForwardsByUnit) {
  const plan::Schedule schedule = SmallSchedule();
  const StepTimes times = Observe(schedule);
  EXPECT_EQ(times.first_issue_ns, 95);
  EXPECT_EQ(times.communication_ns, 300);
  EXPECT_EQ(times.exposed_ns, 120);
  const std::vector<std::pair<int32_t, int64_t>> expected = {{0, 100}, {1, 200}};
  EXPECT_EQ(times.unit_forward_ns, expected);
}

TEST(AutoBandwidthTest, GivesTheGatherItsShareOfTheBlocksForward) {
  const plan::Schedule schedule = SmallSchedule();
  const StepTimes times = Observe(schedule);
  AutoBandwidth measuring(schedule, {.share = 0.6, .latency_ns = 20});
  measuring.Add(0, times);  // warm-up
  EXPECT_FALSE(measuring.IsReady(1));
  StepTimes disturbed = times;
  for (auto& [unit, forward_ns] : disturbed.unit_forward_ns) forward_ns *= 3;
  measuring.Add(1, disturbed);
  measuring.Add(2, times);
  EXPECT_FALSE(measuring.IsReady(1));
  measuring.Add(3, times);
  ASSERT_TRUE(measuring.IsReady(1));
  EXPECT_EQ(measuring.forward_ns(), 200);
  // latency + 6000 bytes at this rate = 0.6 * 200 ns.
  EXPECT_DOUBLE_EQ(*measuring.BytesPerSecond(), 6000 / 100e-9);

  AutoBandwidth impossible(schedule, {.share = 0.6, .latency_ns = 120});
  impossible.Add(1, times);
  EXPECT_FALSE(impossible.BytesPerSecond().has_value());
}

TEST(SegmentTimesTest, TakesTheLowerQuartileOfEachSegment) {
  StepTimes times;
  times.segment_forward_ns = {{0, 100}, {1, 10}};
  StepTimes disturbed;
  disturbed.segment_forward_ns = {{0, 300}, {1, 50}};
  SegmentTimes measuring(2);
  measuring.Add(0, times);  // warm-up
  EXPECT_TRUE(measuring.Costs().empty());
  measuring.Add(1, disturbed);
  measuring.Add(2, times);
  EXPECT_FALSE(measuring.IsReady(1));
  measuring.Add(3, times);
  EXPECT_TRUE(measuring.IsReady(1));
  EXPECT_FALSE(measuring.IsReady(2));
  EXPECT_EQ(measuring.Costs(), (std::vector<double>{100, 10}));
}

}  // namespace
}  // namespace shardscope::runtime
