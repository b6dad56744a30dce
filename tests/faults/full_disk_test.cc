// A disk that fills up costs records, which are counted, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "trace/base/file_size_limit_test_util.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/database.h"

namespace shardscope::query {
namespace {

TEST(FullDisk, LostRecordsAreCountedAndRecordingGoesOn) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path());
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  constexpr int64_t kRows = 20'000;
  const auto record = [&](int64_t from) {
    for (int64_t i = from; i < from + kRows; ++i) {
      recorder->Record(OpAt(plan_op, 0, 0, i, i + 1));
      if (i % 2000 == 0) (void)recorder->Flush();
    }
    return recorder->Flush();
  };
  {
    const FileSizeLimit limit(700'000);
    EXPECT_FALSE(record(0).ok());
    EXPECT_FALSE(recorder->WriterStatus().ok());
    EXPECT_GT(recorder->Dropped().at("engine"), 0);
    // A rare row of that time is not lost.
    schema::MarkerRow marker;
    marker.kind = "note";
    recorder->Add(marker);
    (void)recorder->Flush();
  }
  (void)record(kRows);                    // there is room again
  EXPECT_FALSE(recorder->Finish().ok());  // it tells what happened, and the file is finished

  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_EQ(snapshot.value()->state, TraceState::kFinished);
  const RowList<OpRun>& rows = snapshot.value()->ranks.at(0).op_runs;
  int64_t said = 0;
  for (const Capability& row : snapshot.value()->capabilities) said += row.dropped;
  EXPECT_EQ(static_cast<int64_t>(rows.size()) + said, 2 * kRows);
  EXPECT_EQ(rows.back().started_ns, 2 * kRows - 1);
  EXPECT_EQ(snapshot.value()->markers.size(), 1u);
}

// The log of small batches is larger than the finished file.
constexpr int64_t kSmallBatches = 250;

// Records rows until the log is larger than `bytes`, then as many that find no room in it. Finishes
// with that room. Returns whether the trace is whole.
bool RecordBeyond(rlim_t bytes, record::Recorder* recorder) {
  const PlanOpId plan_op = AddPlanOp(recorder, "F block0", "forward", "compute");
  for (int64_t i = 0; i < kSmallBatches; ++i) {
    recorder->Record(OpAt(plan_op, 0, 0, i, i + 1));
    EXPECT_TRUE(recorder->Flush().ok());
  }
  const FileSizeLimit limit(bytes);
  for (int64_t i = kSmallBatches; i < 2 * kSmallBatches; ++i) {
    recorder->Record(OpAt(plan_op, 0, 0, i, i + 1));
  }
  EXPECT_FALSE(recorder->Flush().ok());
  return recorder->Finish().ok();
}

TEST(FullDisk, WhatTheLiveFileCannotTakeIsInTheFinishedOne) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path());
  EXPECT_FALSE(RecordBeyond(600'000, recorder.get()));
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_EQ(snapshot.value()->state, TraceState::kFinished);
  int64_t said = 0;
  for (const Capability& row : snapshot.value()->capabilities) said += row.dropped;
  EXPECT_EQ(said, kSmallBatches);
  EXPECT_EQ(static_cast<int64_t>(snapshot.value()->ranks.at(0).op_runs.size()), kSmallBatches);
}

TEST(FullDisk, ATraceThatCannotBeFinishedIsCut) {
  TestFolder folder;
  auto recorder = OpenRecorder(folder.path());
  EXPECT_FALSE(RecordBeyond(100'000, recorder.get()));
  recorder.reset();
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_EQ(snapshot.value()->state, TraceState::kCut);
  EXPECT_EQ(static_cast<int64_t>(snapshot.value()->ranks.at(0).op_runs.size()), kSmallBatches);
}

TEST(FullDisk, ATraceThatCannotBeBegunLeavesNothingAndSaysWhatHelps) {
  TestFolder folder;
  const FileSizeLimit limit(50'000);
  record::RecorderOptions options;
  options.run_folder = folder.path();
  const auto recorder = record::Recorder::Open(options);
  ASSERT_FALSE(recorder.ok());
  EXPECT_NE(recorder.message().find("ulimit -f"), std::string::npos) << recorder.message();
  EXPECT_NE(recorder.message().find(folder.path()), std::string::npos) << recorder.message();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

class MemoryBesideAHole : public testing::Test {
 protected:
  explicit MemoryBesideAHole(size_t ring_records = 1 << 14)
      : recorder_(OpenRecorder(folder_.path(), ring_records)) {}

  static constexpr int64_t kRows = 16'000;  // that Record() adds
  static constexpr int64_t kRamp = 2'000;   // events that take, then as many that free
  static constexpr int64_t kBytes = 10;

  // With op runs, their rows are written before those of memory.
  void Record(int64_t from, bool with_op_runs = false) {
    for (int64_t i = from; i < from + kRows; ++i) {
      if (with_op_runs) recorder_->Record(OpAt(plan_op_, 0, 0, i, i + 1));
      schema::MemoryEventRow row;
      row.issued_ns = row.executed_ns = i;
      row.bytes = i / kRamp % 2 == 0 ? kBytes : -kBytes;
      row.device = "cpu";
      row.category = "temporary";
      row.plan_op = PlanOpId::None();
      row.step = -1;
      recorder_->Record(row);
      if (i % 1500 == 0) (void)recorder_->Flush();
    }
    (void)recorder_->Flush();
  }

  // What is live in the finished trace, by the times at which it changes; of the same time the
  // last.
  std::map<int64_t, int64_t> Live() {
    const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
    std::map<int64_t, int64_t> live;
    if (!snapshot.ok()) return live;
    EXPECT_EQ(snapshot.value()->state, TraceState::kFinished);
    for (const MemoryEvent& event : snapshot.value()->ranks.at(0).memory) {
      live[event.executed_ns] += event.bytes;
    }
    int64_t sum = 0;
    for (auto& [time_ns, bytes] : live) bytes = sum += bytes;
    return live;
  }

  TestFolder folder_;
  std::unique_ptr<record::Recorder> recorder_;
  const PlanOpId plan_op_ = AddPlanOp(recorder_.get(), "F block0", "forward", "compute");
};

TEST_F(MemoryBesideAHole, IsNeverMoreThanWasLiveAndRightBehindIt) {
  Record(0);
  {
    const FileSizeLimit limit(700'000);
    Record(kRows);
  }
  EXPECT_GT(recorder_->Dropped().at("memory"), 0);
  Record(2 * kRows);
  EXPECT_FALSE(recorder_->Finish().ok());
  const std::map<int64_t, int64_t> live = Live();
  ASSERT_FALSE(live.empty());
  for (const auto& [time_ns, bytes] : live) {
    EXPECT_LE(bytes, kBytes * kRamp);
    if (time_ns < 2 * kRows) continue;
    const int64_t place = time_ns % (2 * kRamp);
    ASSERT_EQ(bytes, kBytes * (place < kRamp ? place + 1 : 2 * kRamp - 1 - place)) << time_ns;
  }
  EXPECT_EQ(live.rbegin()->second, 0);
}

// Batches that fail with their first row, of another table: the memory events behind it are of no
// full ring, in which nobody would add them up.
TEST_F(MemoryBesideAHole, IsRightBehindOneThatAnotherTableMade) {
  Record(0);
  {
    Result<store::Database> other =
        store::Database::Open(recorder_->path(), store::Database::Mode::kReadWrite);
    ASSERT_TRUE(other.ok()) << other.message();
    ASSERT_TRUE(other
                    ->Execute("CREATE TRIGGER refuse BEFORE INSERT ON op_run BEGIN SELECT "
                              "RAISE(ABORT, 'no'); END")
                    .ok());
    Record(kRows, /*with_op_runs=*/true);
    ASSERT_TRUE(other->Execute("DROP TRIGGER refuse").ok());
  }
  constexpr int64_t kFlushes = kRows / 1500 + 2;  // each may come when memory events alone are left
  EXPECT_GE(recorder_->Dropped().at("memory"), kRows - kFlushes);
  Record(2 * kRows);
  EXPECT_FALSE(recorder_->Finish().ok());
  const std::map<int64_t, int64_t> live = Live();
  ASSERT_FALSE(live.empty());
  EXPECT_EQ(live.rbegin()->second, 0);
}

// Its writer has no time to empty them.
class MemoryBesideFullRings : public MemoryBesideAHole {
 protected:
  MemoryBesideFullRings() : MemoryBesideAHole(256) {}
};

TEST_F(MemoryBesideFullRings, IsNeverMoreThanWasLiveAndRightBehindThem) {
  const auto dropped = [this] {
    const std::map<std::string, int64_t> all = recorder_->Dropped();
    return all.contains("memory") ? all.at("memory") : 0;
  };
  int64_t rows = 0;
  while (dropped() == 0 && rows < 100 * kRows) {
    Record(rows);
    rows += kRows;
  }
  EXPECT_GT(dropped(), 0);
  EXPECT_TRUE(recorder_->Finish().ok());
  const std::map<int64_t, int64_t> live = Live();
  ASSERT_FALSE(live.empty());
  for (const auto& [time_ns, bytes] : live) ASSERT_LE(bytes, kBytes * kRamp) << time_ns;
  EXPECT_EQ(live.rbegin()->second, 0);
}

TEST_F(MemoryBesideAHole, IsRightAtTheEndWhereTheHoleLastsUntilThen) {
  Record(0);
  {
    const FileSizeLimit limit(1'000'000);
    Record(kRows);
    EXPECT_FALSE(recorder_->Finish().ok());
  }
  EXPECT_GT(recorder_->Dropped().at("memory"), 0);
  const std::map<int64_t, int64_t> live = Live();
  ASSERT_FALSE(live.empty());
  for (const auto& [time_ns, bytes] : live) EXPECT_LE(bytes, kBytes * kRamp) << time_ns;
  EXPECT_EQ(live.rbegin()->second, 0);
}

}  // namespace
}  // namespace shardscope::query
