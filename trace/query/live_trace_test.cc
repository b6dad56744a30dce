// Recorder, store and query together: what threads record is what a reader sees, live and
// afterwards.
#include "trace/query/live_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "trace/base/time.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"
#include "trace/store/source.h"

namespace shardscope::query {
namespace {

constexpr int kThreads = 4;
constexpr int kRowsPerThread = 20'000;
// Room for all rows of a thread: these tests are about rows, not about losses, however slow the
// writer is.
constexpr size_t kRoomyRing = 1 << 15;

// Every thread records its ops with its index as the rank and a counter in `cpu_ns`.
void RecordFromThreads(record::Recorder* recorder, PlanOpId plan_op, int rows_per_thread) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kThreads; ++rank) {
    threads.emplace_back([=] {
      for (int i = 0; i < rows_per_thread; ++i) {
        record::OpRecord op = OpAt(plan_op, rank, i / 100, 1000 + i, 1001 + i);
        op.run.cpu_ns = i;
        if (i % 10 == 0) {
          op.collective.rank = rank;
          op.collective.step = i / 100;
          op.collective.communicator = "default";
          op.collective.sequence = i / 10;
          op.collective.kind = "all_gather";
          op.collective.truth = "measured";
        }
        recorder->Record(op);
        // Long enough for a reader to see the file grow.
        if (i % 2000 == 1999) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Each rank's rows are there once each, in the order in which its thread recorded them.
void ExpectAllRows(const Snapshot& snapshot, int rows_per_thread) {
  ASSERT_EQ(snapshot.ranks.size(), static_cast<size_t>(kThreads));
  std::set<OpRunId> ids;
  for (const RankRows& rank : snapshot.ranks) {
    ASSERT_EQ(rank.op_runs.size(), static_cast<size_t>(rows_per_thread));
    for (size_t i = 0; i < rank.op_runs.size(); ++i) {
      ASSERT_EQ(rank.op_runs[i].cpu_ns, static_cast<int64_t>(i));
      ASSERT_TRUE(ids.insert(rank.op_runs[i].id).second);
    }
    ASSERT_EQ(rank.collectives.size(), static_cast<size_t>(rows_per_thread) / 10);
    std::map<OpRunId, int64_t> cpu_by_id;
    for (const OpRun& run : rank.op_runs) cpu_by_id[run.id] = run.cpu_ns;
    for (const Collective& collective : rank.collectives) {
      ASSERT_EQ(cpu_by_id.at(collective.op_run), collective.sequence * 10);
    }
  }
}

TEST(Recorder, AllThreadsRowsComeBack) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path(), kRoomyRing);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  RecordFromThreads(recorder.get(), plan_op, kRowsPerThread);
  ASSERT_TRUE(recorder->Flush().ok());

  const Result<SnapshotPtr> live = ReadSnapshot(folder.path());
  ASSERT_TRUE(live.ok()) << live.message();
  EXPECT_EQ(live.value()->state, TraceState::kLive);
  ExpectAllRows(*live.value(), kRowsPerThread);

  ASSERT_TRUE(recorder->Finish().ok());
  EXPECT_THAT(recorder->Dropped(), testing::Each(testing::Pair(testing::_, 0)));
  const Result<SnapshotPtr> finished = ReadSnapshot(folder.path());
  ASSERT_TRUE(finished.ok()) << finished.message();
  EXPECT_EQ(finished.value()->state, TraceState::kFinished);
  EXPECT_EQ(finished.value()->name, "test");
  EXPECT_EQ(finished.value()->config.at("run.ranks"), "2");
  ExpectAllRows(*finished.value(), kRowsPerThread);
  // One plain file is left.
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  ASSERT_EQ(names.size(), 1u) << testing::PrintToString(names);
  EXPECT_TRUE(names[0].ends_with(".db") && !names[0].ends_with(".live.db")) << names[0];
}

TEST(LiveTrace, FollowsOverTheFinish) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path(), kRoomyRing);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  std::atomic<int> changes = 0;
  Result<std::unique_ptr<LiveTrace>> trace =
      LiveTrace::Open(folder.path(), [&changes] { ++changes; });
  ASSERT_TRUE(trace.ok()) << trace.message();
  const SnapshotPtr before = trace.value()->Latest();
  EXPECT_EQ(before->state, TraceState::kLive);

  std::thread producer(RecordFromThreads, recorder.get(), plan_op, kRowsPerThread);
  size_t last = 0;
  size_t growths = 0;
  uint64_t generation = 0;
  const auto watch = [&] {
    const SnapshotPtr snapshot = trace.value()->Latest();
    EXPECT_GE(snapshot->generation, generation);
    generation = snapshot->generation;
    size_t rows = 0;
    for (const RankRows& rank : snapshot->ranks) rows += rank.op_runs.size();
    EXPECT_GE(rows, last);
    growths += rows > last ? 1 : 0;
    last = rows;
    return snapshot->state;
  };
  std::thread finisher([&] {
    producer.join();
    EXPECT_TRUE(recorder->Finish().ok());
  });
  while (MayGrow(watch()) && trace.value()->status().ok()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  finisher.join();
  ASSERT_TRUE(trace.value()->status().ok()) << trace.value()->status().message();
  EXPECT_EQ(trace.value()->Latest()->state, TraceState::kFinished);
  ExpectAllRows(*trace.value()->Latest(), kRowsPerThread);
  EXPECT_GE(growths, 2u);  // it came in parts, not at the end
  EXPECT_GE(changes.load(), 2);
  EXPECT_TRUE(before->ranks.empty());  // an old Snapshot does not change
}

TEST(Recorder, FullRingIsCounted) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path(), 16);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  schema::MemoryEventRow memory;
  memory.category = "gradient";
  memory.step = -1;
  memory.plan_op = PlanOpId::None();
  constexpr int kRows = 50'000;
  for (int i = 0; i < kRows; ++i) {
    recorder->Record(OpAt(plan_op, 0, 0, i, i + 1));
    recorder->Record(memory);
  }
  ASSERT_TRUE(recorder->Finish().ok());
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  std::map<std::string, int64_t> stored;
  for (const Capability& row : snapshot.value()->capabilities) {
    stored[row.source] += row.dropped;
    if (row.dropped > 0) {
      EXPECT_NE(row.reason, "");
    }
  }
  const RankRows& rank = snapshot.value()->ranks.at(0);
  EXPECT_GT(stored["engine"], 0);
  EXPECT_GT(stored["memory"], 0);
  EXPECT_EQ(stored["engine"] + static_cast<int64_t>(rank.op_runs.size()), kRows);
  EXPECT_EQ(stored["memory"] + static_cast<int64_t>(rank.memory.size()), kRows);
  EXPECT_EQ(recorder->Dropped().at("engine"), stored["engine"]);
  EXPECT_EQ(recorder->Dropped().at("memory"), stored["memory"]);
}

TEST(Recorder, ABurstThatMakesRoomLosesNothing) {
  TestFolder folder;
  constexpr size_t kSmallest = 2 * static_cast<size_t>(record::Recorder::kRowsBetweenRoom);
  auto recorder = OpenRecorder(folder.path(), kSmallest);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  constexpr int kRows = 50'000;
  for (int i = 1; i <= kRows; ++i) {
    recorder->Record(OpAt(plan_op, 0, 0, i, i + 1));
    if (i % record::Recorder::kRowsBetweenRoom == 0) recorder->MakeRoom();
  }
  EXPECT_EQ(recorder->Dropped().at("engine"), 0);
  ASSERT_TRUE(recorder->Finish().ok());
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_EQ(snapshot.value()->ranks.at(0).op_runs.size(), size_t{kRows});
}

// What the tests give it, a batch a read.
class ScriptedSource final : public store::Source {
 public:
  explicit ScriptedSource(std::vector<store::RowBatch> batches) : batches_(std::move(batches)) {}

  Result<bool> Read(store::RowBatch* batch) override {
    if (num_read_ < batches_.size()) *batch = std::move(batches_[num_read_++]);
    return num_read_ < batches_.size();
  }
  store::SourceState state() const override {
    return num_read_ < batches_.size() ? store::SourceState::kLive : store::SourceState::kFinished;
  }

 private:
  std::vector<store::RowBatch> batches_;
  size_t num_read_ = 0;
};

// A row of the clock each second comes while a run is paused, and meta with it.
TEST(LiveTrace, TheClockAloneIsNoNews) {
  std::vector<store::RowBatch> batches(5);
  for (size_t i = 0; i < batches.size(); ++i)
    batches[i].Get<schema::MetaRow>() = {{.key = "name", .value = i < 3 ? "quiet" : "changed"}};
  batches[1].Get<schema::ClockRow>() = {
      {.id = schema::ClockId(1), .monotonic_ns = 5, .realtime_ns = 6}};
  batches[2].Get<schema::ClockRow>() = {
      {.id = schema::ClockId(2), .monotonic_ns = 7, .realtime_ns = 8}};
  batches[4].Get<schema::MarkerRow>() = {{.id = schema::MarkerId(1)}};
  std::atomic<int> changes = 0;
  auto trace = LiveTrace::Follow(std::make_unique<ScriptedSource>(std::move(batches)), "folder",
                                 "name", [&changes] { ++changes; });
  ASSERT_TRUE(trace.ok()) << trace.message();
  while (MayGrow(trace.value()->Latest()->state)) std::this_thread::yield();
  EXPECT_EQ(trace.value()->Latest()->markers.size(), 1u);
  trace.value().reset();  // its thread has ended: nothing more is told
  EXPECT_EQ(changes, 3) << "the first rows, the changed meta row, the marker";
}

// Two files as two processes would write them, and one of a process without tracks.
TEST(LiveTrace, CapabilitiesSayWhichProcessTheyAreOf) {
  const TestFolder folder;
  for (int64_t process = 0; process < 3; ++process) {
    auto recorder = OpenRecorder(folder.path());
    recorder->Add(schema::CapabilityRow{{}, "cupti", process == 1 ? "off" : "on", "", 0});
    schema::TrackRow track;
    track.role = "host";
    for (track.rank = 2 * process; process < 2 && track.rank < 2 * process + 2; ++track.rank) {
      recorder->Add(track);
    }
    ASSERT_TRUE(recorder->Finish().ok());
  }
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  std::map<int64_t, std::string> status;
  for (const Capability& row : (*snapshot)->capabilities) {
    if (row.source == "cupti") status[row.process] = row.status;
  }
  ASSERT_EQ(status.size(), 3u);
  ASSERT_EQ((*snapshot)->processes.size(), 3u);
  int without_ranks = 0;
  for (const auto& [process, facts] : (*snapshot)->processes) {
    EXPECT_FALSE(facts.name.empty());
    EXPECT_FALSE(facts.name.starts_with("trace-"));
    if (facts.ranks == std::vector<int32_t>{2, 3}) {
      EXPECT_EQ(status[process], "off");
    } else {
      EXPECT_EQ(status[process], "on");
      without_ranks += facts.ranks.empty() ? 1 : 0;
    }
  }
  EXPECT_EQ(without_ranks, 1);
}

TEST(Recorder, WindowLeavesOutWithoutLoss) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path());
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  recorder->SetWindow(false);
  recorder->Record(OpAt(plan_op, 0, 0, 1, 2));
  recorder->SetWindow(true);
  recorder->Record(OpAt(plan_op, 0, 1, 3, 4));
  ASSERT_TRUE(recorder->Finish().ok());
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  ASSERT_EQ(snapshot.value()->ranks.at(0).op_runs.size(), 1u);
  EXPECT_EQ(snapshot.value()->ranks[0].op_runs[0].step, 1);
  EXPECT_EQ(recorder->Dropped().at("engine"), 0);
}

TEST(Recorder, WhatComesLateIsAskedForByItsTime) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path());
  const int64_t before_ns = MonotonicNs();
  recorder->SetWindow(false);
  recorder->SetWindow(false);
  const int64_t while_off_ns = MonotonicNs();
  record::GpuWorkRecord work;
  work.span.track = TrackId(1);
  work.span.start_ns = before_ns;
  recorder->Record(work);  // of a time when recording was on
  recorder->SetWindow(true);
  EXPECT_TRUE(recorder->WasRecording(before_ns));
  EXPECT_FALSE(recorder->WasRecording(while_off_ns));
  EXPECT_TRUE(recorder->WasRecording(MonotonicNs()));
  ASSERT_TRUE(recorder->Finish().ok());
  recorder->Record(work);  // too late
  EXPECT_EQ(recorder->Dropped().at("engine"), 0);
  const Result<store::RunFiles> run = store::FindRun(folder.path());
  ASSERT_TRUE(run.ok());
  Result<store::Database> database = store::OpenRunDatabase(run.value());
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*database->QueryInteger("SELECT count(*) FROM gpu_work"), 1);
}

}  // namespace
}  // namespace shardscope::query
