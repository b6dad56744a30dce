// The views against figures computed by hand, through the same door as `shardscope sql`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "trace/query/trace_test_util.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows Query(const std::string& folder, const std::string& sql) {
  const Result<store::RunFiles> run = store::FindRun(folder);
  SHARDSCOPE_CHECK(run.ok());
  Result<store::Database> database = store::OpenRunDatabase(run.value());
  EXPECT_TRUE(database.ok()) << database.message();
  Result<store::Statement> statement = database->Prepare(sql);
  EXPECT_TRUE(statement.ok()) << statement.message();
  Rows rows;
  while (true) {
    const Result<bool> row = statement->Step();
    EXPECT_TRUE(row.ok()) << row.message();
    if (!row.ok() || !row.value()) return rows;
    std::vector<std::string>& cells = rows.emplace_back();
    for (int i = 0; i < statement->NumColumns(); ++i) cells.emplace_back(statement->Text(i));
  }
}

constexpr int64_t kMs = 1'000'000;
constexpr TrackId kComputeTrack(1);  // that OpAt() puts ops on

record::OpRecord CollectiveAt(PlanOpId plan_op, int64_t rank, int64_t start_ns, int64_t end_ns) {
  record::OpRecord op = OpAt(plan_op, rank, 0, start_ns, end_ns);
  op.run.track = TrackId(2);
  op.collective.rank = rank;
  op.collective.communicator = "default";
  op.collective.sequence = 1;
  op.collective.kind = "all_gather";
  op.collective.wire_bytes = 4'000'000;
  op.collective.truth = "emulated";
  return op;
}

void RecordMemory(record::Recorder* recorder, const char* category, int64_t time_ns,
                  int64_t bytes) {
  schema::MemoryEventRow row;
  row.issued_ns = time_ns;
  row.executed_ns = time_ns;
  row.bytes = bytes;
  row.category = category;
  row.plan_op = PlanOpId::None();
  recorder->Record(row);
}

TEST(PausedViews, APauseIsInNoStep) {
  const TestFolder folder;
  {
    const auto recorder = OpenRecorder(folder.path());
    const PlanOpId forward = AddPlanOp(recorder.get(), "F m0 block0 forward", "forward", "compute");
    for (const int64_t step : {0, 1}) {
      const int64_t start_ns = step * 1000 * kMs;
      recorder->Record(OpAt(forward, 0, step, start_ns + kMs, start_ns + 4 * kMs));
      schema::StepRow row;
      row.step = step;
      row.start_ns = start_ns;
      row.end_ns = start_ns + 5 * kMs;
      recorder->Record(row);
    }
    recorder->Add(
        schema::PauseRow{.step = 1, .cause = "user", .start_ns = 5 * kMs, .end_ns = 1000 * kMs});
    ASSERT_TRUE(recorder->Finish().ok());
  }
  EXPECT_EQ(Query(folder.path(), "SELECT step, start_ms, step_ms, compute_ms, idle_ms FROM v_step"),
            (Rows{{"0", "-1.0", "5.0", "3.0", "2.0"}, {"1", "999.0", "5.0", "3.0", "2.0"}}));
  EXPECT_EQ(Query(folder.path(), "SELECT * FROM v_pause"),
            (Rows{{"0", "1", "user", "4.0", "995.0"}}));
}

// Rank 0, in ms from 100: forward 0-4, all-gather 2-8, copy-out 8-9, forward 9-12 that waited for
// it, and half a ms for a compute slot, reshard (bookkeeping) 12-13. Step 0-14. Rank 1: its part of
// the all-gather, arriving at 5, and a step without compute.
void RecordSmallRun(record::Recorder* recorder) {
  const int64_t t = 100 * kMs;
  const PlanOpId first = AddPlanOp(recorder, "F m0 block0 forward", "forward", "compute");
  const PlanOpId gather =
      AddPlanOp(recorder, "F m0 block1 all_gather", "all_gather", "communication");
  const PlanOpId copy = AddPlanOp(recorder, "F m0 block1 copy_out", "copy_out", "copy");
  const PlanOpId second = AddPlanOp(recorder, "F m0 block1 forward", "forward", "compute");
  const PlanOpId reshard = AddPlanOp(recorder, "F m0 block1 reshard", "reshard", "host");
  schema::TrackRow track;
  track.name = track.role = "compute";
  EXPECT_EQ(recorder->Add(track), kComputeTrack);
  recorder->Record(OpAt(first, 0, 0, t, t + 4 * kMs));
  recorder->Record(CollectiveAt(gather, 0, t + 2 * kMs, t + 8 * kMs));
  recorder->Record(CollectiveAt(gather, 1, t + 5 * kMs, t + 8 * kMs));
  record::OpRecord copied = OpAt(copy, 0, 0, t + 8 * kMs, t + 9 * kMs);
  copied.run.track = TrackId(3);
  copied.run.issued_ns = t + 2 * kMs;
  copied.run.blocking_plan_op = gather;
  copied.run.blocking_kind = "stream_order";
  recorder->Record(copied);
  record::OpRecord waiting = OpAt(second, 0, 0, t + 9 * kMs, t + 12 * kMs);
  waiting.run.issued_ns = t + 3 * kMs;
  waiting.run.blocking_plan_op = copy;
  waiting.run.blocking_kind = "event";
  waiting.run.slot_wait_ns = kMs / 2;
  recorder->Record(waiting);
  recorder->Record(OpAt(reshard, 0, 0, t + 12 * kMs, t + 13 * kMs));
  schema::StepRow step;
  step.start_ns = t;
  step.end_ns = t + 14 * kMs;
  step.tokens = 64;
  step.loss = 5.5;
  recorder->Record(step);
  step.rank = 1;
  recorder->Record(step);
  RecordMemory(recorder, "gradient", t, 3'000'000);
  RecordMemory(recorder, "activation", t + kMs, 2'000'000);
  RecordMemory(recorder, "gradient", t + 2 * kMs, -3'000'000);
  RecordMemory(recorder, "activation", t + 3 * kMs, 2'000'000);
}

// The same on a live file, on a finished one and on two files merged.
class Views : public testing::Test {
 protected:
  void ExpectFigures() const {
    EXPECT_EQ(
        Query(folder_.path(),
              "SELECT rank, step, step_ms, compute_ms, communication_ms, copy_ms, overlap_ms, "
              "exposed_ms, exposed_copy_ms, idle_ms, slot_wait_ms, tokens, loss "
              "FROM v_step ORDER BY rank"),
        (Rows{
            {"0", "0", "14.0", "7.0", "6.0", "1.0", "2.0", "4.0", "1.0", "2.0", "0.0", "64", "5.5"},
            {"1", "0", "14.0", "0.0", "3.0", "0.0", "0.0", "3.0", "0.0", "11.0", "0.0", "64",
             "5.5"}}));
    EXPECT_EQ(
        Query(folder_.path(),
              "SELECT rank, op, wait_ms, transfer_ms, bus_gb_s FROM v_collective ORDER BY rank"),
        (Rows{{"0", "F m0 block1 all_gather", "3.0", "3.0", "1.33333333333333"},
              {"1", "F m0 block1 all_gather", "0.0", "3.0", "1.33333333333333"}}));
    EXPECT_EQ(Query(folder_.path(),
                    "SELECT rank, op, waited_ms, blocked_by, collective, collective_ms, "
                    "issued_ahead_ms FROM v_stall"),
              (Rows{{"0", "F m0 block1 forward", "4.5", "F m0 block1 copy_out",
                     "F m0 block1 all_gather", "6.0", "2.0"},
                    {"0", "F m0 block1 forward", "0.5", "", "", "", ""}}));
    EXPECT_EQ(Query(folder_.path(), "SELECT * FROM v_memory_peak"),
              (Rows{{"0", "total", "5.0", "1.0", "5.0"},
                    {"0", "activation", "4.0", "3.0", "2.0"},
                    {"0", "gradient", "3.0", "0.0", "3.0"}}));
    EXPECT_EQ(
        Query(folder_.path(),
              "SELECT op, started_ms, ended_ms, blocked_by FROM v_op_run WHERE kind='copy_out'"),
        (Rows{{"F m0 block1 copy_out", "8.0", "9.0", "F m0 block1 all_gather"}}));
    EXPECT_EQ(Query(folder_.path(), "SELECT * FROM v_dropped"), Rows{});
  }

  TestFolder folder_;
};

TEST_F(Views, LiveFinishedAndMergedAgree) {
  auto recorder = OpenRecorder(folder_.path());
  RecordSmallRun(recorder.get());
  ASSERT_TRUE(recorder->Flush().ok());
  ExpectFigures();
  ASSERT_TRUE(recorder->Finish().ok());
  ExpectFigures();
  // A second process of the run, that has no op yet.
  auto second = OpenRecorder(folder_.path());
  AddPlanOp(second.get(), "another plan", "forward", "compute");
  ASSERT_TRUE(second->Flush().ok());
  ExpectFigures();
  EXPECT_EQ(Query(folder_.path(), "SELECT count(*) FROM plan_op"), (Rows{{"6"}}));
}

TEST_F(Views, BoundsOfAGpusClockAreTheTightestOfAllReadings) {
  auto recorder = OpenRecorder(folder_.path());
  recorder->Add(schema::GpuClockRow{
      .method = "cupti", .low_ns = -5000, .high_ns = 9000, .works = 3, .waits = 1});
  recorder->Add(schema::GpuClockRow{
      .method = "cupti", .low_ns = -4000, .high_ns = 12000, .works = 2, .waits = 2});
  recorder->Add(
      schema::GpuClockRow{.device = 1, .method = "cupti", .low_ns = 2000, .high_ns = 1000});
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_EQ(Query(folder_.path(), "SELECT * FROM v_gpu_clock ORDER BY device"),
            (Rows{{"0", "0", "cupti", "-4.0", "9.0", "9.0", "2", "5", "3"},
                  {"0", "1", "cupti", "2.0", "1.0", "2.0", "1", "0", "0"}}));
}

TEST_F(Views, OverheadIsTheMedianOfRoundsAndOfTheSlowestRank) {
  auto recorder = OpenRecorder(folder_.path());
  const auto add = [&](int64_t round, int64_t step, int64_t recorded, int64_t duration_ms) {
    for (const int64_t rank : {0, 1}) {
      recorder->Add(schema::OverheadStepRow{.round = round,
                                            .rank = rank,
                                            .step = step,
                                            .recorded = recorded,
                                            .duration_ns = (duration_ms - rank) * 1'000'000});
    }
  };
  ASSERT_TRUE(recorder->Flush().ok());
  EXPECT_EQ(Query(folder_.path(), "SELECT * FROM v_overhead"), Rows{});
  const int64_t without_ms[] = {100, 80, 200};
  for (int64_t round = 0; round < 3; ++round) {
    add(round, 8 * round, 1, 110);
    add(round, 8 * round + 1, 0, without_ms[round]);
    add(round, 8 * round + 3, 1, 130);
  }
  add(3, 40, 1, 1);  // a round without its other side
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_EQ(Query(folder_.path(), "SELECT * FROM v_overhead"),
            (Rows{{"1.2", "0.6", "1.5", "3", "120.0", "100.0"}}));
}

TEST_F(Views, DivergedLossIsKept) {
  auto recorder = OpenRecorder(folder_.path());
  schema::StepRow step;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  recorder->Record(step);
  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_EQ(Query(folder_.path(), "SELECT step, loss IS NULL FROM step"), (Rows{{"0", "1"}}));
}

}  // namespace
}  // namespace shardscope::query
