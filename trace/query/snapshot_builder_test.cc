#include "trace/query/snapshot_builder.h"

#include <gtest/gtest.h>

namespace shardscope::query {
namespace {

using store::kMaxStep;

constexpr int64_t kLate = (int64_t{1} << 62) - 1;  // the last sane time
constexpr int64_t kId = int64_t{40'000} * store::kIdsPerFile + 7;
constexpr int64_t kManyBytes = int64_t{1} << 40;
constexpr int32_t kLastRank = 1 << 20;

store::RowBatch PlanOfOneOp() {
  store::RowBatch batch;
  schema::PlanOpRow op;
  op.id = PlanOpId(kId);
  op.kind = "forward";
  op.category = "compute";
  batch.Get<schema::PlanOpRow>().push_back(op);
  return batch;
}

// Structs of rows are as small as what they hold allows: nothing of it may be cut off.
TEST(SnapshotBuilder, HoldsTheLargestValuesOfOpRuns) {
  store::RowBatch batch = PlanOfOneOp();
  schema::OpRunRow row;
  row.id = OpRunId(kId + 1);
  row.plan_op = PlanOpId(kId);
  row.rank = kLastRank;
  row.step = kMaxStep;
  row.track = TrackId(kId + 2);
  row.issued_ns = kLate - 3;
  row.ready_ns = kLate - 2;
  row.started_ns = kLate - 1;
  row.ended_ns = kLate;
  row.slot_wait_ns = kLate - 4;
  row.cpu_ns = INT64_MAX;
  row.blocking_plan_op = PlanOpId(kId);
  row.blocking_kind = "slot";
  batch.Get<schema::OpRunRow>().push_back(row);
  SnapshotBuilder builder("", "");
  builder.Add(batch);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  ASSERT_EQ(snapshot->ranks.size(), 1u);
  ASSERT_EQ(snapshot->ranks[0].op_runs.size(), 1u);
  const OpRun& run = snapshot->ranks[0].op_runs[0];
  EXPECT_EQ(run.id, row.id);
  EXPECT_EQ(run.plan_op, row.plan_op);
  EXPECT_EQ(run.rank, row.rank);
  EXPECT_EQ(run.step, row.step);
  EXPECT_EQ(run.track, row.track);
  EXPECT_EQ(run.issued_ns, row.issued_ns);
  EXPECT_EQ(run.ready_ns, row.ready_ns);
  EXPECT_EQ(run.started_ns, row.started_ns);
  EXPECT_EQ(run.ended_ns, row.ended_ns);
  EXPECT_EQ(run.slot_wait_ns, row.slot_wait_ns);
  EXPECT_EQ(run.cpu_ns, row.cpu_ns);
  EXPECT_EQ(run.blocking_plan_op, row.blocking_plan_op);
  EXPECT_EQ(run.blocking_kind, BlockingKind::kSlot);
}

TEST(SnapshotBuilder, HoldsTheLargestValuesOfMemoryEventsAndCollectives) {
  store::RowBatch batch;
  for (const int64_t bytes : {kManyBytes, -kManyBytes, int64_t{-1}}) {
    schema::MemoryEventRow row;
    row.rank = kLastRank;
    row.issued_ns = kLate - 1;
    row.executed_ns = kLate;
    row.bytes = bytes;
    row.category = "other";
    row.step = bytes > 0 ? kMaxStep : -1;
    batch.Get<schema::MemoryEventRow>().push_back(row);
  }
  schema::CollectiveRow collective;
  collective.op_run = OpRunId(kId);
  collective.rank = kLastRank;
  collective.step = kMaxStep;
  collective.communicator = "shard";
  collective.sequence = INT64_MAX;
  collective.kind = "reduce_scatter";
  collective.payload_bytes = INT64_MAX - 1;
  collective.wire_bytes = INT64_MAX - 2;
  collective.group_size = INT32_MAX - 1;
  collective.truth = "emulated";
  batch.Get<schema::CollectiveRow>().push_back(collective);
  SnapshotBuilder builder("", "");
  builder.Add(batch);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  ASSERT_EQ(snapshot->ranks.size(), 1u);
  const RankRows& rows = snapshot->ranks[0];
  ASSERT_EQ(rows.memory.size(), 3u);
  for (size_t at = 0; at < rows.memory.size(); ++at) {
    const schema::MemoryEventRow& row = batch.Get<schema::MemoryEventRow>()[at];
    EXPECT_EQ(rows.memory[at].issued_ns, row.issued_ns);
    EXPECT_EQ(rows.memory[at].executed_ns, row.executed_ns);
    EXPECT_EQ(rows.memory[at].bytes, row.bytes);
    EXPECT_EQ(rows.memory[at].category, MemoryCategory::kOther);
    EXPECT_EQ(rows.memory[at].is_of_step, row.step >= 0);
  }
  ASSERT_EQ(rows.collectives.size(), 1u);
  const Collective& held = rows.collectives[0];
  EXPECT_EQ(held.op_run, collective.op_run);
  EXPECT_EQ(held.rank, collective.rank);
  EXPECT_EQ(held.step, collective.step);
  EXPECT_EQ(snapshot->communicators[static_cast<size_t>(held.communicator)], "shard");
  EXPECT_EQ(held.sequence, collective.sequence);
  EXPECT_EQ(held.kind, OpClass::kReduceScatter);
  EXPECT_EQ(held.payload_bytes, collective.payload_bytes);
  EXPECT_EQ(held.wire_bytes, collective.wire_bytes);
  EXPECT_EQ(held.group_size, collective.group_size);
  EXPECT_EQ(held.truth, Truth::kEmulated);
}

// Whoever looks at the steps around one reckons with one more and one less.
TEST(SnapshotBuilder, LeavesOutStepsThatNoRunReaches) {
  for (const int64_t step : {int64_t{kMaxStep} + 1, int64_t{INT32_MAX}, int64_t{-2}, INT64_MIN}) {
    store::RowBatch batch;
    schema::StepRow row;
    row.step = step;
    row.end_ns = 1;
    batch.Get<schema::StepRow>().push_back(row);
    schema::MarkerRow marker;
    marker.step = step;
    batch.Get<schema::MarkerRow>().push_back(marker);
    SnapshotBuilder builder("", "");
    builder.Add(batch);
    const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
    EXPECT_TRUE(snapshot->markers.empty()) << step;
    for (const RankRows& rows : snapshot->ranks) EXPECT_TRUE(rows.steps.empty()) << step;
  }
}

store::RowBatch PausesOf(std::initializer_list<schema::PauseRow> rows) {
  store::RowBatch batch;
  batch.Get<schema::PauseRow>() = rows;
  return batch;
}

TEST(SnapshotBuilder, TakesPausesThatCanBe) {
  SnapshotBuilder builder("", "");
  builder.Add(PausesOf({{schema::PauseId(1), 0, 3, "user", 10, 20},
                        {schema::PauseId(2), 0, 4, "checkpoint", 30, 31},
                        {schema::PauseId(3), 0, 5, "lunch", 40, 50},     // no such word
                        {schema::PauseId(4), 0, 5, "user", 50, 40},      // ends before it begins
                        {schema::PauseId(5), 0, 5, "user", 30, 60},      // over another
                        {schema::PauseId(6), -1, 5, "user", 70, 80}}));  // of no rank
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  ASSERT_EQ(snapshot->ranks.size(), 1u);
  const std::vector<Pause>& pauses = snapshot->ranks[0].pauses;
  ASSERT_EQ(pauses.size(), 2u);
  EXPECT_EQ(pauses[0].step, 3);
  EXPECT_EQ(pauses[1].cause, PauseCause::kCheckpoint);
  EXPECT_EQ(pauses[1].end_ns, 31);
  ASSERT_EQ(snapshot->capabilities.size(), 1u);
  EXPECT_EQ(snapshot->capabilities[0].dropped, 4);
}

TEST(SnapshotBuilder, KnowsThatALiveRunIsPaused) {
  SnapshotBuilder builder("", "");
  const auto mark = [&](const char* kind) {
    store::RowBatch batch;
    schema::MarkerRow row;
    row.kind = kind;
    batch.Get<schema::MarkerRow>().push_back(row);
    builder.Add(batch);
    return builder.Publish(store::SourceState::kLive)->paused;
  };
  EXPECT_FALSE(mark("change"));
  EXPECT_TRUE(mark("pause"));
  EXPECT_TRUE(mark("change"));
  EXPECT_FALSE(mark("resume"));
  EXPECT_TRUE(mark("pause"));
  EXPECT_FALSE(mark("stop"));
  EXPECT_TRUE(mark("pause"));
  EXPECT_FALSE(builder.Publish(store::SourceState::kFinished)->paused);
}

}  // namespace
}  // namespace shardscope::query
