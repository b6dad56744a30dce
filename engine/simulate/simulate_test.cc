// Steps so small that their times can be worked out by hand.
#include "engine/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/executor/trace_sink.h"
#include "engine/plan/policy.h"
#include "engine/plan/uniform_model.h"
#include "engine/simulate/report_step_test_util.h"
#include "trace/base/words.h"
#include "trace/record/keeping_recorder_test_util.h"

namespace shardscope::simulate {
namespace {

using executor::BlockingKind;
using executor::OpTimes;
using plan::OpIndex;
using plan::OpKind;

constexpr plan::StreamIndex kHost = 0, kCompute = 1, kGather = 2;

struct SmallOp {
  OpKind kind;
  plan::StreamIndex stream;
  int64_t duration_ns;
  std::vector<plan::Dependency> dependencies = {};
};

plan::Dependency Event(OpIndex op) { return {plan::DependencyKind::kEvent, op}; }
plan::Dependency HostWaitsFor(OpIndex op) { return {plan::DependencyKind::kHost, op}; }

// All ranks run `ops`, of which the host needs 1 ns each.
struct Small {
  Small(int num_ranks, const std::vector<SmallOp>& ops) {
    schedule.name = "small";
    schedule.mesh = plan::MeshOf(plan::MeshDimension::kShard, num_ranks);
    schedule.program_of_rank.assign(static_cast<size_t>(num_ranks), 0);
    schedule.streams = {{"host", plan::StreamRole::kHost},
                        {"compute", plan::StreamRole::kCompute},
                        {"all_gather", plan::StreamRole::kAllGather}};
    schedule.communicators = {{"shard"}};
    schedule.programs.emplace_back();
    std::vector<OpCost> costs;
    for (const SmallOp& small : ops) {
      plan::Op op;
      op.kind = small.kind;
      op.stream = small.stream;
      op.dependencies = small.dependencies;
      if (plan::CategoryOf(op.kind) == plan::Category::kCommunication) op.communicator = 0;
      schedule.programs.front().ops.push_back(op);
      costs.push_back({.issue_ns = 1, .duration_ns = small.duration_ns});
    }
    input.costs.assign(static_cast<size_t>(num_ranks), costs);
    input.start_ns.assign(static_cast<size_t>(num_ranks), 0);
  }

  StepTimes Run() const {
    const Result<StepTimes> times = SimulateStep(schedule, input);
    EXPECT_TRUE(times.ok()) << times.message();
    return times.ok() ? *times : StepTimes();
  }

  plan::Schedule schedule;
  StepInput input;
};

void ExpectTimes(const OpTimes& times, const std::array<int64_t, 4>& expected) {
  EXPECT_EQ((std::array{times.issued_ns, times.ready_ns, times.started_ns, times.ended_ns}),
            expected);
}
void ExpectCause(const OpTimes& times, OpIndex op, BlockingKind kind) {
  EXPECT_EQ(times.blocking_op, op);
  EXPECT_EQ(Name(times.blocking_kind), Name(kind));
}

TEST(Simulate, StreamsRunAtOnceAndWaitForWhatTheyDependOn) {
  const StepTimes times = Small(1, {{OpKind::kAllGather, kGather, 30},
                                    {OpKind::kForward, kCompute, 10},
                                    {OpKind::kForward, kCompute, 5},
                                    {OpKind::kForward, kCompute, 10, {Event(0)}},
                                    {OpKind::kAllGather, kGather, 30}})
                              .Run();
  ExpectTimes(times[0][0], {1, 1, 1, 31});
  ExpectTimes(times[0][1], {2, 2, 2, 12});
  ExpectTimes(times[0][2], {3, 12, 12, 17});
  ExpectTimes(times[0][3], {4, 31, 31, 41});
  ExpectTimes(times[0][4], {5, 31, 31, 61});
  ExpectCause(times[0][0], plan::kNone, BlockingKind::kNone);
  ExpectCause(times[0][2], 1, BlockingKind::kStreamOrder);
  ExpectCause(times[0][3], 0, BlockingKind::kEvent);
  ExpectCause(times[0][4], 0, BlockingKind::kStreamOrder);
}

TEST(Simulate, OpsOfACommunicatorRunInIssueOrderOnDifferentStreams) {
  const StepTimes times =
      Small(1, {{OpKind::kAllGather, kGather, 30}, {OpKind::kReduceScatter, kCompute, 10}}).Run();
  ExpectTimes(times[0][1], {2, 31, 31, 41});
  ExpectCause(times[0][1], 0, BlockingKind::kCommunicatorOrder);
}

TEST(Simulate, LatencyRunsWhileAnOpWaits) {
  Small small(1, {{OpKind::kForward, kCompute, 4}, {OpKind::kForward, kCompute, 4}});
  for (OpCost& cost : small.input.costs[0]) cost.latency_ns = 5;
  small.input.costs[0][1].issue_ns = 2;
  const StepTimes times = small.Run();
  ExpectTimes(times[0][0], {1, 1, 6, 10});
  ExpectTimes(times[0][1], {3, 10, 10, 14});
}

TEST(Simulate, TheHostsOwnOpsKeepItUntilTheyEnd) {
  Small small(1, {{OpKind::kForward, kCompute, 20},
                  {OpKind::kLoadBatch, kHost, 7, {Event(0)}},
                  {OpKind::kForward, kCompute, 4}});
  small.input.costs[0][0].return_ns = 3;
  small.input.costs[0][1].return_ns = 2;
  const StepTimes times = small.Run();
  ExpectTimes(times[0][1], {5, 21, 21, 28});  // issued behind the return from the first op
  ExpectTimes(times[0][2], {31, 31, 31, 35});
}

TEST(Simulate, ASlotGoesToWhoCameFirst) {
  Small small(3, {{OpKind::kForward, kCompute, 10}});
  small.input.compute_slots = 1;
  small.input.start_ns = {2, 0, 1};
  const StepTimes times = small.Run();
  ExpectTimes(times[1][0], {1, 1, 1, 11});
  ExpectTimes(times[2][0], {2, 2, 11, 21});
  ExpectTimes(times[0][0], {3, 3, 21, 31});
  EXPECT_EQ(times[0][0].slot_wait_ns, 18);
  ExpectCause(times[0][0], plan::kNone, BlockingKind::kSlot);
  ExpectCause(times[1][0], plan::kNone, BlockingKind::kNone);
}

TEST(Simulate, CollectivesTakeNoSlot) {
  Small small(2, {{OpKind::kForward, kCompute, 10}, {OpKind::kAllGather, kGather, 5}});
  small.input.compute_slots = 1;
  const StepTimes times = small.Run();
  ExpectTimes(times[1][0], {1, 1, 11, 21});
  ExpectTimes(times[1][1], {2, 2, 2, 7});
}

// As run-ahead 0 does: each op is issued when the forward before it has ended.
TEST(Simulate, AHostThatWaitsIssuesLate) {
  const StepTimes times = Small(1, {{OpKind::kForward, kCompute, 10},
                                    {OpKind::kAllGather, kGather, 30, {HostWaitsFor(0)}},
                                    {OpKind::kForward, kCompute, 10}})
                              .Run();
  ExpectTimes(times[0][1], {12, 12, 12, 42});
  ExpectTimes(times[0][2], {13, 13, 13, 23});
  ExpectCause(times[0][1], 0, BlockingKind::kHost);
  // Its stream was free as early as the host: the one it follows ended when the host went on.
  ExpectCause(times[0][2], plan::kNone, BlockingKind::kNone);
}

TEST(Simulate, ACollectiveBeginsToMoveWhenTheLastRankIsThere) {
  Small small(2, {{OpKind::kForward, kCompute, 10}, {OpKind::kAllGather, kGather, 30, {Event(0)}}});
  small.input.costs[1][0].duration_ns = 25;
  small.input.costs[1][1].duration_ns = 32;  // ranks may leave at different times
  const StepTimes times = small.Run();
  ExpectTimes(times[0][1], {2, 11, 11, 56});
  ExpectTimes(times[1][1], {2, 26, 26, 58});
}

TEST(Simulate, RanksMeetInTheControlOp) {
  Small small(2, {{OpKind::kControl, kHost, 3}, {OpKind::kForward, kCompute, 10}});
  small.input.start_ns = {0, 100};
  const StepTimes times = small.Run();
  ExpectTimes(times[0][0], {1, 1, 1, 104});
  ExpectTimes(times[1][0], {101, 101, 101, 104});
  ExpectTimes(times[0][1], {105, 105, 105, 115});
}

TEST(Simulate, RanksThatWaitForEverAreAnError) {
  Small small(2, {{OpKind::kForward, kCompute, 10}, {OpKind::kAllGather, kGather, 30}});
  small.schedule.programs.push_back(small.schedule.programs.front());
  small.schedule.programs.back().ops.pop_back();
  small.schedule.program_of_rank = {0, 1};
  small.input.costs[1].pop_back();
  const Result<StepTimes> times = SimulateStep(small.schedule, small.input);
  ASSERT_FALSE(times.ok());
  EXPECT_THAT(times.message(),
              testing::HasSubstr("rank 0 waits for ever at 'F all_gather' (op 1)"));
}

TEST(Simulate, AnOpOnNoStreamIsAnError) {
  const Small small(1, {{OpKind::kForward, 7, 10}});
  EXPECT_FALSE(SimulateStep(small.schedule, small.input).ok());
}

// The same sink that writes what an executor measures.
TEST(Simulate, ReportsRowsAndMemoryAsAnExecutorDoes) {
  plan::Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  const Result<plan::Schedule> schedule = plan::BuildSchedule(plan::UniformModel(2, true), policy);
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  const size_t num_ops = schedule->programs.front().ops.size();
  StepInput input;
  input.start_ns = {1000, 1000};
  input.costs.assign(2, std::vector<OpCost>(num_ops, {.issue_ns = 1, .duration_ns = 20}));
  const Result<StepTimes> times = SimulateStep(*schedule, input);
  ASSERT_TRUE(times.ok()) << times.message();

  record::KeepingRecorder recorder;
  executor::TraceSink sink(&recorder, {.transport = "none", .truth = words::Truth::kProjected});
  sink.RegisterSchedule(*schedule, {0, 1}, {});
  ReportStep(*schedule, 7, *times, &sink);
  const auto& ops = recorder.Hot<record::OpRecord>();
  ASSERT_EQ(ops.size(), 2 * num_ops);
  for (size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(ops[i].run.rank, i < num_ops ? 0 : 1);
    EXPECT_EQ(ops[i].run.step, 7);
    const bool is_collective = !ops[i].collective.kind.empty();
    EXPECT_EQ(ops[i].collective.truth.str(), is_collective ? "projected" : "");
    if (i % num_ops > 0) {
      EXPECT_LE(ops[i - 1].run.ended_ns, ops[i].run.ended_ns);
    }
  }
  int64_t live = 0;
  for (const schema::MemoryEventRow& event : recorder.Hot<schema::MemoryEventRow>()) {
    EXPECT_LE(event.issued_ns, event.executed_ns);
    live += event.bytes;
  }
  EXPECT_EQ(live, 0);
  EXPECT_FALSE(recorder.Hot<schema::MemoryEventRow>().empty());
}

}  // namespace
}  // namespace shardscope::simulate
