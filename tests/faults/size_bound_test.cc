// record.max_bytes: whatever happens, the trace has no more on disk, and it has the newest steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "trace/base/folder_bytes_test_util.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
namespace {

constexpr int64_t kBound = 4'000'000;
constexpr int kManySteps = 400;
constexpr int kOps = 80;           // a step and rank
constexpr int kRowsOfStep = 1;     // table step
constexpr int kEventsOfStep = 40;  // allocations and as many frees
constexpr int64_t kPersistent = 5'000'000;
constexpr int64_t kLongStepNs = 1'000'000;

// Looks at the folder all the time until it goes.
class SizeWatch {
 public:
  explicit SizeWatch(const std::string& folder)
      : thread_([this, folder] {
          while (!stopping_) {
            largest_ = std::max(largest_, FolderBytes(folder));
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        }) {}
  ~SizeWatch() {
    if (thread_.joinable()) Stop();
  }
  int64_t Stop() {
    stopping_ = true;
    thread_.join();
    return largest_;
  }

 private:
  std::atomic<bool> stopping_ = false;
  int64_t largest_ = 0;  // the thread's, until it ended
  std::thread thread_;
};

schema::MemoryEventRow EventAt(int64_t step, int64_t time_ns, int64_t bytes) {
  schema::MemoryEventRow row;
  row.device = "cpu";
  row.issued_ns = row.executed_ns = time_ns;
  row.bytes = bytes;
  row.category = step < 0 ? "parameter_shard" : "activation";
  row.unit = "block0";
  row.plan_op = PlanOpId::None();
  row.step = step;
  return row;
}

void RecordStep(record::Recorder* recorder, PlanOpId plan_op, int64_t step) {
  const int64_t start_ns = step * kLongStepNs;
  for (int i = 0; i < kOps; ++i) {
    recorder->Record(OpAt(plan_op, 0, step, start_ns + i * 1000, start_ns + i * 1000 + 900));
  }
  for (int i = 0; i < kEventsOfStep; ++i) {
    recorder->Record(EventAt(step, start_ns + i * 1000, i % 2 == 0 ? 1000 + i : -(999 + i)));
  }
  schema::StepRow row;
  row.step = step;
  row.start_ns = start_ns;
  row.end_ns = start_ns + kLongStepNs;
  recorder->Record(row);
}

int64_t Dropped(const Snapshot& snapshot, const std::string& source) {
  int64_t dropped = 0;
  for (const Capability& row : snapshot.capabilities) {
    if (row.dropped > 0) {
      EXPECT_THAT(row.reason, testing::HasSubstr("record.max_bytes"));
    }
    if (row.source == source) dropped += row.dropped;
  }
  return dropped;
}

// Whole steps up to the last one, what is missing is said, and the memory ledger ends where it
// should.
void ExpectNewestSteps(const Snapshot& snapshot, int64_t num_steps) {
  const RankRows& rank = snapshot.ranks.at(0);
  ASSERT_GT(rank.steps.size(), 0u);
  EXPECT_LT(static_cast<int64_t>(rank.steps.size()), num_steps);
  const int64_t first = num_steps - static_cast<int64_t>(rank.steps.size());
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    ASSERT_EQ(rank.steps[i].step, first + static_cast<int64_t>(i));
  }
  std::map<int64_t, int> ops;
  for (size_t i = 0; i < rank.op_runs.size(); ++i) ++ops[rank.op_runs[i].step];
  EXPECT_EQ(ops.size(), rank.steps.size());
  for (const auto& [step, count] : ops) EXPECT_EQ(count, kOps) << step;
  EXPECT_EQ(snapshot.meta.at("dropped_through_step"), std::to_string(first - 1));
  EXPECT_EQ(Dropped(snapshot, "engine"), first * (kOps + kRowsOfStep));
  int64_t bytes = 0;
  int64_t events = 0;
  for (size_t i = 0; i < rank.memory.size(); ++i) {
    bytes += rank.memory[i].bytes;
    events += rank.memory[i].is_of_step ? 1 : 0;
  }
  EXPECT_EQ(bytes, kPersistent);
  EXPECT_EQ(Dropped(snapshot, "memory"), num_steps * kEventsOfStep + 1 - events);
}

// Batches of an evaluation are in no step: their numbers below -1 are not older than all steps.
TEST(SizeBound, KeepsTheNewestBatchOfAnEvaluation) {
  TestFolder folder;
  const auto recorder = OpenRecorder(folder.path(), 1 << 14, kBound);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  for (int step = 0; step < kManySteps; ++step) {
    RecordStep(recorder.get(), plan_op, step);
    for (int i = 0; step == kManySteps - 3 && i < kOps; ++i) {
      recorder->Record(OpAt(plan_op, 0, -2, (step + 1) * kLongStepNs - 100 + i,
                            (step + 1) * kLongStepNs - 99 + i));
    }
    if (step % 20 == 19) {
      ASSERT_TRUE(recorder->Flush().ok());
    }
  }
  ASSERT_TRUE(recorder->Finish().ok());
  const Result<SnapshotPtr> finished = ReadSnapshot(folder.path());
  ASSERT_TRUE(finished.ok()) << finished.message();
  const RankRows& rank = finished.value()->ranks.at(0);
  EXPECT_LT(rank.steps.size(), static_cast<size_t>(kManySteps));
  EXPECT_EQ(std::ranges::count(rank.op_runs, -2, &OpRun::step), kOps);
}

TEST(SizeBound, HoldsAtEveryMomentAndKeepsTheNewestSteps) {
  TestFolder folder;
  SizeWatch watch(folder.path());
  auto recorder = OpenRecorder(folder.path(), 1 << 14, kBound);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  recorder->Record(EventAt(-1, 0, kPersistent));
  for (int step = 0; step < kManySteps; ++step) {
    RecordStep(recorder.get(), plan_op, step);
    if (step % 20 == 19) {
      ASSERT_TRUE(recorder->Flush().ok());
    }
    if (step == kManySteps / 2 - 1) {  // who opens the run while it is live sees the same
      ASSERT_TRUE(recorder->Flush().ok());
      const Result<SnapshotPtr> live = ReadSnapshot(folder.path());
      ASSERT_TRUE(live.ok()) << live.message();
      EXPECT_EQ(live.value()->state, TraceState::kLive);
      ExpectNewestSteps(*live.value(), step + 1);
    }
  }
  ASSERT_TRUE(recorder->Flush().ok());
  {
    const Result<store::RunFiles> run = store::FindRun(folder.path());
    ASSERT_TRUE(run.ok()) << run.message();
    ASSERT_GT(store::LiveSegments(run->traces.front()).size(), 1u);
    Result<store::Database> merged = store::OpenRunDatabase(*run);
    ASSERT_TRUE(merged.ok()) << merged.message();
    EXPECT_EQ(merged->QueryInteger("SELECT max(step) FROM step").value(), kManySteps - 1);
    EXPECT_EQ(merged->QueryInteger("SELECT sum(dropped) FROM v_dropped").value(),
              recorder->Dropped().at("engine") + recorder->Dropped().at("memory"));
  }
  ASSERT_TRUE(recorder->Finish().ok());
  const int64_t largest = watch.Stop();
  EXPECT_LE(largest, kBound);
  EXPECT_GT(largest, kBound / 3);  // the room is used
  const Result<SnapshotPtr> finished = ReadSnapshot(folder.path());
  ASSERT_TRUE(finished.ok()) << finished.message();
  ExpectNewestSteps(*finished.value(), kManySteps);
  EXPECT_EQ(Dropped(*finished.value(), "engine"), recorder->Dropped().at("engine"));
  EXPECT_EQ(Dropped(*finished.value(), "memory"), recorder->Dropped().at("memory"));
}

// A follower has read what is removed later, and goes on without noticing.
TEST(SizeBound, FollowerKeepsEveryRow) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path(), 1 << 14, kBound);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  recorder->Record(EventAt(-1, 0, kPersistent));
  Result<std::unique_ptr<LiveTrace>> trace = LiveTrace::Open(folder.path());
  ASSERT_TRUE(trace.ok()) << trace.message();
  const auto follows = [&](size_t steps) {
    const SnapshotPtr latest = trace.value()->Latest();
    return !trace.value()->status().ok() ||
           (!latest->ranks.empty() && latest->ranks[0].steps.size() >= steps);
  };
  for (int step = 0; step < kManySteps; ++step) {
    RecordStep(recorder.get(), plan_op, step);
    if (step % 50 != 49) continue;
    ASSERT_TRUE(recorder->Flush().ok());
    while (!follows(static_cast<size_t>(step) + 1)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  EXPECT_GT(recorder->Dropped().at("engine"), 0);
  ASSERT_TRUE(recorder->Finish().ok());
  while (trace.value()->status().ok() && MayGrow(trace.value()->Latest()->state)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(trace.value()->status().ok()) << trace.value()->status().message();
  const SnapshotPtr all = trace.value()->Latest();
  EXPECT_EQ(all->state, TraceState::kFinished);
  const RankRows& rank = all->ranks.at(0);
  ASSERT_EQ(rank.steps.size(), static_cast<size_t>(kManySteps));
  ASSERT_EQ(rank.op_runs.size(), static_cast<size_t>(kManySteps) * kOps);
  for (size_t i = 0; i < rank.op_runs.size(); ++i) {
    ASSERT_EQ(rank.op_runs[i].step, static_cast<int32_t>(i) / kOps);
  }
  ASSERT_EQ(rank.memory.size(), static_cast<size_t>(kManySteps) * kEventsOfStep + 1);
  int64_t bytes = 0;
  for (size_t i = 0; i < rank.memory.size(); ++i) bytes += rank.memory[i].bytes;
  EXPECT_EQ(bytes, kPersistent);
}

// Whoever comes so late that rows are gone which it had not read is told so, rather than shown a
// trace with a hole; opened again, the run has what is left.
TEST(SizeBound, FollowerThatIsTooLateSaysSo) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path(), 1 << 14, kBound);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  recorder->Record(EventAt(-1, 0, kPersistent));
  const auto record = [&](int begin, int end) {
    for (int step = begin; step < end; ++step) RecordStep(recorder.get(), plan_op, step);
    ASSERT_TRUE(recorder->Flush().ok());
  };
  record(0, 10);
  const Result<store::RunFiles> run = store::FindRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.message();
  Result<std::unique_ptr<store::RunSource>> late = store::RunSource::Open(*run);
  ASSERT_TRUE(late.ok()) << late.message();
  store::RowBatch batch;
  Result<bool> more = true;
  while (more.ok() && more.value()) more = late.value()->Read(&batch);
  ASSERT_TRUE(more.ok()) << more.message();
  EXPECT_EQ(batch.Get<schema::StepRow>().size(), 10u);
  for (int step = 10; step < kManySteps / 2; step += 10) record(step, step + 10);
  do {
    more = late.value()->Read(&batch);
  } while (more.ok() && more.value());
  ASSERT_FALSE(more.ok());
  EXPECT_THAT(more.message(), testing::AllOf(testing::HasSubstr("record.max_bytes"),
                                             testing::HasSubstr("open the run again")));
  const Result<SnapshotPtr> again = ReadSnapshot(folder.path());
  ASSERT_TRUE(again.ok()) << again.message();
  ExpectNewestSteps(*again.value(), kManySteps / 2);
}

TEST(SizeBound, TooSmallABoundIsRefused) {
  TestFolder folder;
  record::RecorderOptions options;
  options.run_folder = folder.path();
  options.max_bytes = 1000;
  const auto recorder = record::Recorder::Open(options);
  ASSERT_FALSE(recorder.ok());
  EXPECT_THAT(recorder.message(), testing::HasSubstr("record.max_bytes"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace shardscope::query
