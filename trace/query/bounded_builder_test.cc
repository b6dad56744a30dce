#include "trace/query/bounded_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>

#include "trace/query/rows.h"

namespace shardscope::query {
namespace {

constexpr int64_t kRunRanks = 2;
constexpr int64_t kRunOps = 4;      // of a rank and step
constexpr int64_t kRowsOfRank = 7;  // and step: ops, two memory events and the step
constexpr int64_t kRunStepNs = 1000;
constexpr int64_t kHeldBytes = 5000;
constexpr int64_t kTurnedBefore = 20;  // the step

schema::MemoryEventRow MemoryAt(int64_t rank, int64_t step, int64_t time_ns, int64_t bytes,
                                const char* category) {
  schema::MemoryEventRow row;
  row.rank = rank;
  row.device = "cpu";
  row.issued_ns = row.executed_ns = time_ns;
  row.bytes = bytes;
  row.category = category;
  row.unit = "block0";
  row.step = step;
  return row;
}

// A run of which each call gives what a commit would have.
class LongRun {
 public:
  store::RowBatch Begin() {
    store::RowBatch batch;
    AddConfig(&batch);
    schema::PlanOpRow op;
    op.id = PlanOpId(1);
    op.name = "F block0";
    op.kind = "forward";
    op.category = "compute";
    op.micro_batch = -1;
    batch.Get<schema::PlanOpRow>().push_back(op);
    for (int64_t rank = 0; rank < kRunRanks; ++rank) {
      batch.Get<schema::TrackRow>().push_back({TrackId(1 + rank), rank, "compute", "compute", 1});
      batch.Get<schema::MemoryEventRow>().push_back(
          MemoryAt(rank, -1, 1, kHeldBytes, "parameter_shard"));
    }
    return batch;
  }

  // `rank` does `step`, from `step` * kRunStepNs on.
  void Add(int64_t rank, int64_t step, store::RowBatch* batch, bool has_steps = true) {
    AddConfig(batch);
    const int64_t start_ns = 10 + step * kRunStepNs;
    for (int64_t at = 0; at < kRunOps; ++at) {
      schema::OpRunRow run;
      run.id = OpRunId(++newest_id_);
      run.plan_op = PlanOpId(1);
      run.rank = rank;
      run.step = has_steps ? step : -1;
      run.track = TrackId(1 + rank);
      run.issued_ns = run.ready_ns = run.started_ns = start_ns + at * 100;
      run.ended_ns = run.started_ns + 90;
      run.blocking_plan_op = PlanOpId::None();
      run.blocking_kind = "none";
      batch->Get<schema::OpRunRow>().push_back(run);
    }
    auto& memory = batch->Get<schema::MemoryEventRow>();
    memory.push_back(MemoryAt(rank, has_steps ? step : -1, start_ns + 5, 64, "activation"));
    memory.push_back(MemoryAt(rank, has_steps ? step : -1, start_ns + 300, -60, "activation"));
    if (!has_steps) return;
    batch->Get<schema::StepRow>().push_back({schema::StepId(++newest_id_), rank, step,
                                             ScheduleId(1), start_ns, start_ns + 900, 10, 2.5,
                                             1.0});
    if (step != kTurnedBefore || rank != 0) return;
    schema::MarkerRow marker;
    marker.id = schema::MarkerId(1);
    marker.time_ns = start_ns - 1;
    marker.step = step;
    marker.kind = "change";
    marker.key = "prefetch.forward";
    marker.old_value = "1";
    marker.new_value = "2";
    batch->Get<schema::MarkerRow>().push_back(marker);
  }

 private:
  static void AddConfig(store::RowBatch* batch) {
    batch->Get<schema::ConfigRow>().push_back({"prefetch.forward", "1"});
  }

  int64_t newest_id_ = 0;
};

int64_t RowsOf(const Snapshot& snapshot) {
  int64_t count = 0;
  for (const RankRows& rank : snapshot.ranks) {
    count += static_cast<int64_t>(rank.op_runs.size() + rank.memory.size() + rank.steps.size());
  }
  return count;
}

int64_t BytesHeld(const RankRows& rank, MemoryCategory category) {
  int64_t bytes = 0;
  for (const MemoryEvent& event : rank.memory) {
    if (event.category == category) bytes += event.bytes;
  }
  return bytes;
}

// All rows of the steps from the first one on, and only these.
void ExpectWhole(const Snapshot& snapshot, int64_t last_step) {
  ASSERT_TRUE(snapshot.part);
  const int64_t first = snapshot.part->first_step;
  EXPECT_EQ(snapshot.part->first_of_run, 0);
  EXPECT_EQ(snapshot.part->last_step, last_step);
  ASSERT_EQ(snapshot.ranks.size(), static_cast<size_t>(kRunRanks));
  for (const RankRows& rank : snapshot.ranks) {
    std::set<std::pair<int32_t, int64_t>> ops;
    for (const OpRun& run : rank.op_runs) ops.emplace(run.step, run.started_ns);
    EXPECT_EQ(ops.size(), rank.op_runs.size());
    EXPECT_EQ(static_cast<int64_t>(ops.size()), (last_step - first + 1) * kRunOps);
    EXPECT_EQ(ops.begin()->first, first);
    EXPECT_EQ(static_cast<int64_t>(rank.steps.size()), last_step - first + 1);
    // What is there from the start on, and what each step left.
    EXPECT_EQ(BytesHeld(rank, MemoryCategory::kParameterShard), kHeldBytes);
    EXPECT_EQ(BytesHeld(rank, MemoryCategory::kActivation), (last_step + 1) * 4);
  }
  EXPECT_EQ(snapshot.tracks.size(), static_cast<size_t>(kRunRanks));
  EXPECT_NE(snapshot.FindPlanOp(PlanOpId(1)), nullptr);
}

TEST(BoundedBuilder, HasTheLastStepsWithinMemory) {
  constexpr int64_t kMostRows = 2000;
  constexpr int64_t kSteps = 1000;
  BoundedBuilder builder("run", "run", MemoryForLiveRows(kMostRows));
  LongRun run;
  builder.Add(run.Begin(), false);
  SnapshotPtr before = builder.Publish(store::SourceState::kLive);
  int64_t num_replaced = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    store::RowBatch batch;
    for (int64_t rank = 0; rank < kRunRanks; ++rank) run.Add(rank, step, &batch);
    builder.Add(std::move(batch), false);
    const SnapshotPtr snapshot = builder.Publish(store::SourceState::kLive);
    const int64_t rows = RowsOf(*snapshot);
    EXPECT_LE(rows, kMostRows * 3 / 4 + 4 * kRunRanks * kRowsOfRank);
    const bool is_replaced = !HaveSameRows(before->generation, snapshot->generation);
    EXPECT_EQ(snapshot->generation < before->generation, is_replaced);
    if (is_replaced) {
      ++num_replaced;
      EXPECT_GE(rows, kMostRows / 4 - 4 * kRunRanks * kRowsOfRank);
      ExpectWhole(*snapshot, step);
      EXPECT_GT(snapshot->part->first_step, before->part ? before->part->first_step : 0);
    } else {
      EXPECT_EQ(snapshot->ranks[0].op_runs[0].step,
                before->ranks.empty() || before->ranks[0].op_runs.empty()
                    ? 0
                    : before->ranks[0].op_runs[0].step);
    }
    before = snapshot;
  }
  EXPECT_GE(num_replaced, kSteps * kRunRanks * kRowsOfRank / kMostRows);
  const SnapshotPtr last = builder.Publish(store::SourceState::kFinished);
  EXPECT_EQ(last->state, TraceState::kFinished);
  ExpectWhole(*last, kSteps - 1);
  EXPECT_EQ(last->config.at("prefetch.forward"), "2");
  EXPECT_EQ(last->part->needed_bytes,
            MemoryForRun(0, kRunRanks).by_ranks +
                MemoryForLiveRows(kSteps * kRunRanks * kRowsOfRank + kRunRanks));
  // Where earlier steps were is known.
  EXPECT_EQ(last->RunStartNs(), 1);
  EXPECT_EQ(last->part->StartOf(kTurnedBefore), 10 + kTurnedBefore * kRunStepNs);
}

TEST(BoundedBuilder, SaysWhetherTheFirstRowsAreStillRead) {
  BoundedBuilder builder("run", "run", MemoryForLiveRows(1000));
  LongRun run;
  builder.Add(run.Begin(), true);
  EXPECT_TRUE(builder.Publish(store::SourceState::kLive)->is_behind);
  builder.Add(store::RowBatch(), false);
  EXPECT_FALSE(builder.Publish(store::SourceState::kLive)->is_behind);
  // What comes in haste is no longer what was there.
  builder.Add(store::RowBatch(), true);
  EXPECT_FALSE(builder.Publish(store::SourceState::kLive)->is_behind);
}

TEST(BoundedBuilder, HasAllRowsOfARankThatIsBehind) {
  constexpr int64_t kBehind = 5;
  constexpr int64_t kSteps = 300;
  BoundedBuilder builder("run", "run", MemoryForLiveRows(1000));
  LongRun run;
  builder.Add(run.Begin(), false);
  for (int64_t step = 0; step < kSteps + kBehind; ++step) {
    store::RowBatch batch;
    if (step < kSteps) run.Add(0, step, &batch);
    if (step >= kBehind) run.Add(1, step - kBehind, &batch);
    builder.Add(std::move(batch), false);
  }
  const SnapshotPtr last = builder.Publish(store::SourceState::kFinished);
  ASSERT_TRUE(last->part);
  EXPECT_GT(last->part->first_step, kSteps / 2);
  ExpectWhole(*last, kSteps - 1);
}

// One of its ranks has ended, and no more of its steps come.
TEST(BoundedBuilder, GoesOnWithoutARankThatIsGone) {
  BoundedBuilder builder("run", "run", MemoryForLiveRows(1000));
  LongRun run;
  builder.Add(run.Begin(), false);
  for (int64_t step = 0; step < 3000; ++step) {
    store::RowBatch batch;
    run.Add(0, step, &batch);
    if (step < 3) run.Add(1, step, &batch);
    builder.Add(std::move(batch), false);
  }
  const SnapshotPtr last = builder.Publish(store::SourceState::kLive);
  ASSERT_TRUE(last->part);
  EXPECT_LE(RowsOf(*last), 2000);
  // Nor does one that had no event since lose what its memory holds.
  ASSERT_EQ(last->ranks.size(), 2u);
  EXPECT_EQ(BytesHeld(last->ranks[1], MemoryCategory::kParameterShard), kHeldBytes);
  EXPECT_EQ(BytesHeld(last->ranks[1], MemoryCategory::kActivation), 3 * 4);
}

TEST(BoundedBuilder, HasAllRowsOfALongStepAndOfARunWithoutSteps) {
  for (const bool has_steps : {false, true}) {
    BoundedBuilder builder("run", "run", MemoryForLiveRows(100));
    LongRun run;
    builder.Add(run.Begin(), false);
    if (has_steps) {
      store::RowBatch batch;
      run.Add(0, 0, &batch);
      builder.Add(std::move(batch), false);
    }
    for (int64_t at = 0; at < 200; ++at) {
      store::RowBatch batch;
      run.Add(0, 0, &batch, false);
      builder.Add(std::move(batch), false);
    }
    const SnapshotPtr last = builder.Publish(store::SourceState::kLive);
    EXPECT_FALSE(last->part);
    EXPECT_EQ(last->ranks[0].op_runs.size(), (has_steps ? 201u : 200u) * kRunOps);
  }
}

// A table may be far ahead of others until all that was there is read.
TEST(BoundedBuilder, BeginsALaterPartOnceAllIsRead) {
  BoundedBuilder builder("run", "run", MemoryForLiveRows(1000));
  LongRun run;
  store::RowBatch all = run.Begin();
  for (int64_t step = 0; step < 300; ++step) run.Add(0, step, &all);
  store::RowBatch ahead;
  ahead.Get<schema::StepRow>() = std::exchange(all.Get<schema::StepRow>(), {});
  builder.Add(std::move(ahead), true);
  builder.Add(std::move(all), true);
  EXPECT_FALSE(builder.Publish(store::SourceState::kLive)->part);
  for (int64_t step = 300; step < 320; ++step) {
    store::RowBatch batch;
    run.Add(0, step, &batch);
    builder.Add(std::move(batch), false);
  }
  const SnapshotPtr last = builder.Publish(store::SourceState::kLive);
  ASSERT_TRUE(last->part);
  EXPECT_GT(last->part->first_step, 300);
  EXPECT_EQ(last->ranks[0].op_runs[0].step, last->part->first_step);
}

TEST(BoundedBuilder, HasAllOfWhatFitsAndOfARunThatHasEnded) {
  for (const bool has_ended : {false, true}) {
    BoundedBuilder builder("run", "run", MemoryForLiveRows(has_ended ? 100 : 20'000));
    if (has_ended) builder.KeepAll();
    LongRun run;
    builder.Add(run.Begin(), false);
    for (int64_t step = 0; step < 200; ++step) {
      store::RowBatch batch;
      run.Add(0, step, &batch);
      builder.Add(std::move(batch), false);
    }
    const SnapshotPtr last = builder.Publish(store::SourceState::kFinished);
    EXPECT_FALSE(last->part);
    EXPECT_EQ(last->ranks[0].op_runs.size(), 200u * kRunOps);
  }
}

}  // namespace
}  // namespace shardscope::query
