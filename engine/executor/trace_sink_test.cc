// The rows that a run leaves in the trace.
#include "engine/executor/trace_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/executor/toy_bodies_test_util.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"
#include "trace/base/words.h"
#include "trace/record/keeping_recorder_test_util.h"

namespace shardscope::executor {
namespace {

// The rows that the sink writes.
struct KeepingRecorder final : record::KeepingRecorder {
  static constexpr int64_t kFirstId = 1000;
  KeepingRecorder() : record::KeepingRecorder(kFirstId) {}

  const schema::PlanOpRow& PlanOp(schema::PlanOpId id) const {
    return plan_ops[static_cast<size_t>(id.value() - kFirstId)];
  }
  const schema::TrackRow& Track(schema::TrackId id) const {
    return tracks[static_cast<size_t>(id.value() - kFirstId)];
  }

  const std::vector<schema::TrackRow>& tracks = Rare<schema::TrackRow>();
  const std::vector<schema::ScheduleRow>& schedules = Rare<schema::ScheduleRow>();
  const std::vector<schema::ScheduleBoundRow>& bounds = Rare<schema::ScheduleBoundRow>();
  const std::vector<schema::RankPeakRow>& rank_peaks = Rare<schema::RankPeakRow>();
  const std::vector<schema::PlanOpRow>& plan_ops = Rare<schema::PlanOpRow>();
  const std::vector<schema::PlanEdgeRow>& plan_edges = Rare<schema::PlanEdgeRow>();
  const std::vector<record::OpRecord>& ops = Hot<record::OpRecord>();
  const std::vector<schema::MemoryEventRow>& memory = Hot<schema::MemoryEventRow>();
  const std::vector<schema::CounterRow>& counters = Hot<schema::CounterRow>();
};

constexpr int kRanks = 2;

plan::Schedule Build(plan::BackwardPrefetch mode) {
  plan::Policy policy;
  policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, kRanks);
  policy.backward_prefetch = mode;
  Result<plan::Schedule> schedule = plan::BuildSchedule(plan::UniformModel(2, true), policy);
  EXPECT_TRUE(schedule.ok()) << schedule.message();
  return schedule.ok() ? *schedule : plan::Schedule{};
}

// Runs step i with *schedules[i] on all ranks.
void RunSteps(TraceSink* sink, const std::vector<const plan::Schedule*>& schedules) {
  ToyExchange exchange;
  ComputeSlots slots(kRanks);
  std::vector<std::thread> hosts;
  for (int rank = 0; rank < kRanks; ++rank) {
    hosts.emplace_back([&, rank] {
      ToyBodies bodies(&exchange);
      CpuRunner executor(rank, &bodies, sink, &slots);
      for (size_t step = 0; step < schedules.size(); ++step) {
        bodies.Prepare(schedules[step]->ProgramOf(rank));
        EXPECT_TRUE(executor.SetSchedule(*schedules[step]).ok());
        const Status status = executor.RunStep(static_cast<int64_t>(step));
        EXPECT_TRUE(status.ok()) << status.message();
      }
    });
  }
  for (std::thread& host : hosts) host.join();
}

class TraceSinkTest : public testing::Test {
 protected:
  KeepingRecorder recorder_;
  TraceSink sink_{&recorder_, {.transport = "shared_memory", .truth = words::Truth::kMeasured}};
  const plan::Schedule pre_ = Build(plan::BackwardPrefetch::kPre);
  const plan::Schedule none_ = Build(plan::BackwardPrefetch::kNone);
};

TEST_F(TraceSinkTest, WritesTheSchedule) {
  const schema::ScheduleId id = sink_.RegisterSchedule(
      pre_, {0, 1}, {.largest = {.issued = 12345, .executed = 23456}, .by_rank = {{1, 2}, {3, 4}}});
  ASSERT_EQ(recorder_.schedules.size(), 1U);
  EXPECT_EQ(recorder_.schedules[0].id, id);
  EXPECT_EQ(recorder_.schedules[0].name, pre_.name);
  EXPECT_EQ(recorder_.schedules[0].predicted_peak_bytes, 12345);
  ASSERT_EQ(recorder_.bounds.size(), 1U);
  EXPECT_EQ(recorder_.bounds[0].schedule, id);
  EXPECT_EQ(recorder_.bounds[0].executed_peak_bytes, 23456);
  ASSERT_EQ(recorder_.rank_peaks.size(), 2U);
  EXPECT_EQ(recorder_.rank_peaks[1].schedule, id);
  EXPECT_EQ(recorder_.rank_peaks[1].rank, 1);
  EXPECT_EQ(recorder_.rank_peaks[1].predicted_peak_bytes, 3);
  EXPECT_EQ(recorder_.rank_peaks[1].executed_peak_bytes, 4);
  const Result<plan::Schedule> parsed = plan::ParseSchedule(recorder_.schedules[0].text);
  ASSERT_TRUE(parsed.ok()) << parsed.message();
  EXPECT_EQ(*parsed, pre_);

  const std::vector<plan::Op>& ops = pre_.programs[0].ops;
  ASSERT_EQ(recorder_.plan_ops.size(), ops.size());
  size_t num_edges = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    const schema::PlanOpRow& row = recorder_.plan_ops[i];
    EXPECT_EQ(row.op, static_cast<int64_t>(i));
    EXPECT_EQ(row.schedule, id);
    EXPECT_EQ(row.name, plan::OpName(pre_, ops[i]));
    EXPECT_EQ(row.communicator.empty(), ops[i].communicator == plan::kNone);
    EXPECT_EQ(row.payload_bytes, ops[i].payload_bytes);
    for (const plan::Dependency& dependency : ops[i].dependencies) {
      const plan::OpIndex before =
          plan::ResolveDependency(pre_.programs[0], static_cast<plan::OpIndex>(i), dependency);
      if (before == plan::kNone) continue;
      const schema::PlanEdgeRow& edge = recorder_.plan_edges.at(num_edges++);
      EXPECT_EQ(edge.plan_op, row.id);
      EXPECT_EQ(recorder_.PlanOp(edge.predecessor).op, before);
      EXPECT_EQ(edge.kind, plan::Name(dependency.kind));
    }
  }
  EXPECT_GT(num_edges, 0U);
  EXPECT_EQ(recorder_.plan_edges.size(), num_edges);
}

TEST_F(TraceSinkTest, WritesATrackPerRankAndStreamOnce) {
  sink_.RegisterSchedule(pre_, {0, 1}, {});
  sink_.RegisterSchedule(none_, {0, 1}, {});
  EXPECT_EQ(recorder_.tracks.size(), kRanks * pre_.streams.size());
  for (const schema::TrackRow& track : recorder_.tracks) {
    const std::map<std::string, int64_t> positions = {
        {"host", 0}, {"compute", 1}, {"copy", 2}, {"all_gather", 6}, {"reduce_scatter", 7}};
    EXPECT_EQ(track.position, positions.at(track.role));
  }
}

TEST_F(TraceSinkTest, RecordsEveryOpOfEveryRankAndStep) {
  sink_.RegisterSchedule(pre_, {0, 1}, {});
  RunSteps(&sink_, {&pre_, &pre_, &pre_});
  std::set<std::tuple<schema::PlanOpId, int64_t, int64_t>> seen;
  for (const record::OpRecord& record : recorder_.ops) {
    const schema::OpRunRow& run = record.run;
    EXPECT_TRUE(seen.emplace(run.plan_op, run.rank, run.step).second);
    EXPECT_EQ(recorder_.Track(run.track).rank, run.rank);
    EXPECT_EQ(recorder_.Track(run.track).name, recorder_.PlanOp(run.plan_op).stream);
    if (run.blocking_kind != "slot") {
      EXPECT_EQ(run.blocking_plan_op == schema::PlanOpId::None(), run.blocking_kind == "none");
    }
    const schema::PlanOpRow& op = recorder_.PlanOp(run.plan_op);
    EXPECT_EQ(record.collective.kind.empty(), op.communicator.empty());
    if (op.communicator.empty()) continue;
    EXPECT_EQ(record.collective.kind.str(), op.kind);
    EXPECT_EQ(record.collective.communicator.str(), op.communicator);
    EXPECT_EQ(record.collective.dtype.str(), op.dtype);
    EXPECT_EQ(record.collective.wire_bytes, op.wire_bytes);
    EXPECT_EQ(record.collective.group_size, kRanks);
    EXPECT_EQ(record.collective.transport, "shared_memory");
    EXPECT_EQ(record.collective.truth, "measured");
  }
  EXPECT_EQ(seen.size(), 3 * kRanks * pre_.programs[0].ops.size());
}

TEST_F(TraceSinkTest, NumbersCollectivesAlikeOnAllRanksAcrossSchedules) {
  sink_.RegisterSchedule(pre_, {0, 1}, {});
  sink_.RegisterSchedule(none_, {0, 1}, {});
  RunSteps(&sink_, {&pre_, &none_, &none_, &pre_});
  // By rank: (start, sequence, name).
  std::map<int64_t, std::vector<std::tuple<int64_t, int64_t, std::string>>> collectives;
  for (const record::OpRecord& record : recorder_.ops) {
    if (record.collective.kind.empty()) continue;
    collectives[record.run.rank].emplace_back(record.run.started_ns, record.collective.sequence,
                                              recorder_.PlanOp(record.run.plan_op).name);
  }
  ASSERT_EQ(collectives.size(), static_cast<size_t>(kRanks));
  ASSERT_EQ(collectives[0].size(), collectives[1].size());
  for (auto& [rank, runs] : collectives) {
    std::sort(runs.begin(), runs.end());
    for (size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(std::get<1>(runs[i]), static_cast<int64_t>(i));
      EXPECT_EQ(std::get<2>(runs[i]), std::get<2>(collectives[0][i]));
    }
  }
}

TEST_F(TraceSinkTest, RecordsMemoryInAndOutsideOps) {
  sink_.RegisterSchedule(pre_, {0, 1}, {});
  sink_.OnMemoryOutsideOps(1, plan::MemoryCategory::kOptimizer, "block0", 800, 55);
  RunSteps(&sink_, {&pre_});
  const schema::MemoryEventRow& outside = recorder_.memory.at(0);
  EXPECT_EQ(outside.rank, 1);
  EXPECT_EQ(outside.category, "optimizer");
  EXPECT_EQ(outside.unit, "block0");
  EXPECT_EQ(outside.bytes, 800);
  EXPECT_EQ(outside.plan_op, schema::PlanOpId::None());
  EXPECT_EQ(outside.step, -1);
  EXPECT_EQ(outside.issued_ns, outside.executed_ns);
  std::map<std::pair<int64_t, std::string>, int64_t> live;  // by rank and category
  for (size_t i = 1; i < recorder_.memory.size(); ++i) {
    const schema::MemoryEventRow& event = recorder_.memory[i];
    EXPECT_EQ(event.step, 0);
    EXPECT_FALSE(event.unit.empty() && event.category != "other");
    EXPECT_FALSE(recorder_.PlanOp(event.plan_op).name.empty());
    live[{event.rank, event.category.str()}] += event.bytes;
  }
  EXPECT_EQ(live.count({0, "unsharded_parameter"}), 1U);
  for (const auto& [key, bytes] : live) EXPECT_EQ(bytes, 0) << key.second;
}

TEST_F(TraceSinkTest, MemoryBeyondBuffersStandsAtItsOpsIssue) {
  sink_.RegisterSchedule(pre_, {0, 1}, {});
  OpContext context;
  context.schedule = &pre_;
  context.program = &pre_.ProgramOf(1);
  context.rank = 1;
  context.step = 4;
  context.issued_ns = 70;
  while (context.op().kind != plan::OpKind::kForward) ++context.index;
  sink_.OnOtherMemory(context, {plan::MemoryCategory::kTemporary, 640, 90});
  const schema::MemoryEventRow& event = recorder_.memory.at(0);
  EXPECT_EQ(event.rank, 1);
  EXPECT_EQ(event.step, 4);
  EXPECT_EQ(event.issued_ns, 70);
  EXPECT_EQ(event.executed_ns, 90);
  EXPECT_EQ(event.bytes, 640);
  EXPECT_EQ(event.category, "temporary");
  EXPECT_EQ(event.unit, pre_.segments.front().name);
  EXPECT_EQ(recorder_.PlanOp(event.plan_op).kind, "forward");
}

// A gap is taken and given back by ops of different units, often with what lies beside it.
TEST_F(TraceSinkTest, MemoryBesideABufferIsBookedToTheBuffersUnit) {
  sink_.RegisterSchedule(pre_, {0}, {});
  OpContext context;
  context.schedule = &pre_;
  context.program = &pre_.ProgramOf(0);
  plan::BufferId beside = 0;
  while (context.buffer(beside).kind != plan::BufferKind::kUnsharded ||
         context.buffer(beside).unit == 0) {
    ++beside;
  }
  for (const plan::OpKind kind : {plan::OpKind::kForward, plan::OpKind::kReshard}) {
    while (context.op().kind != kind) ++context.index;
    sink_.OnOtherMemory(context, {plan::MemoryCategory::kOther, 48, 90, beside});
    const std::string& unit = pre_.units[static_cast<size_t>(context.buffer(beside).unit)].name;
    EXPECT_EQ(recorder_.memory.back().unit, unit) << plan::Name(kind);
  }
}

TEST_F(TraceSinkTest, CountsOfTheAllocatorsAreCountersOfTheHostTrack) {
  sink_.RegisterSchedule(pre_, {0, 1}, {});
  sink_.OnStepMemory(1, {.time_ns = 9, .allocated_bytes = 100, .reserved_bytes = 150});
  sink_.OnStepMemory(
      0, {.time_ns = 9, .allocated_bytes = 1, .resident_bytes = 900, .device_used_bytes = 7000});
  std::vector<std::pair<std::string, double>> values;
  for (const schema::CounterRow& row : recorder_.counters) {
    EXPECT_EQ(row.time_ns, 9);
    EXPECT_EQ(recorder_.Track(row.track).name, "host");
    EXPECT_EQ(recorder_.Track(row.track).rank, values.size() < 2 ? 1 : 0);
    values.emplace_back(recorder_.strings()[static_cast<size_t>(row.name_string.value()) - 1],
                        row.value);
  }
  const std::vector<std::pair<std::string, double>> expected = {
      {"allocated_bytes", 100}, {"reserved_bytes", 150}, {"allocated_bytes", 1},
      {"reserved_bytes", 0},    {"resident_bytes", 900}, {"device_used_bytes", 7000}};
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace shardscope::executor
