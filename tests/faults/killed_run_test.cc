// A run killed at any moment opens, has every row that was committed, and says that it was cut.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <random>

#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/run_files.h"

namespace shardscope::query {
namespace {

// In the child: records for ever and tells through the pipe how many rows are surely committed.
[[noreturn]] void RecordForEver(const std::string& folder, int pipe_end) {
  auto recorder = OpenRecorder(folder);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  for (int64_t rows = 0;;) {
    for (int i = 0; i < 500; ++i) {
      recorder->Record(OpAt(plan_op, 0, 0, rows, rows + 1));
      ++rows;
    }
    if (!recorder->Flush().ok() || write(pipe_end, &rows, sizeof(rows)) != sizeof(rows)) _exit(1);
  }
}

// Kills the child after `num_flushes` flushes and `delay_us` more; returns how many rows it had
// told.
int64_t RecordAndKill(const std::string& folder, int num_flushes, useconds_t delay_us) {
  std::array<int, 2> ends = {};
  SHARDSCOPE_CHECK(pipe(ends.data()) == 0);
  const pid_t child = fork();
  SHARDSCOPE_CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    RecordForEver(folder, ends[1]);
  }
  close(ends[1]);
  int64_t told = 0;
  for (int i = 0; i < num_flushes; ++i) {
    SHARDSCOPE_CHECK(read(ends[0], &told, sizeof(told)) == sizeof(told));
  }
  usleep(delay_us);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (int64_t rows = 0; read(ends[0], &rows, sizeof(rows)) == sizeof(rows);) told = rows;
  close(ends[0]);
  return told;
}

void ExpectCut(const Snapshot& snapshot, int64_t told) {
  EXPECT_EQ(snapshot.state, TraceState::kCut);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  const RowList<OpRun>& rows = snapshot.ranks[0].op_runs;
  EXPECT_GE(static_cast<int64_t>(rows.size()), told);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].started_ns, static_cast<int64_t>(i));  // none missing in between
  }
}

TEST(KilledRun, OpensWithAllCommittedRows) {
  std::mt19937 random(11);
  for (int attempt = 0; attempt < 10; ++attempt) {
    TestFolder folder;
    const int64_t told = RecordAndKill(folder.path(), 1 + static_cast<int>(random() % 8),
                                       static_cast<useconds_t>(random() % 5000));
    const Result<SnapshotPtr> snapshot = ReadSnapshot(folder.path());
    ASSERT_TRUE(snapshot.ok()) << snapshot.message();
    ExpectCut(*snapshot.value(), told);
    // Whoever opened it finished it: one plain file, and the second opening says the same.
    const auto traces = store::ListTraces(folder.path());
    ASSERT_EQ(traces.size(), 1u);
    EXPECT_FALSE(store::Exists(traces[0].LivePath()));
    EXPECT_FALSE(store::Exists(traces[0].LockPath()));
    const Result<SnapshotPtr> again = ReadSnapshot(folder.path());
    ASSERT_TRUE(again.ok()) << again.message();
    ExpectCut(*again.value(), told);
  }
}

TEST(KilledRun, FollowerSeesTheCut) {
  TestFolder folder;
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) RecordForEver(folder.path(), ends[1]);
  int64_t told = 0;
  ASSERT_EQ(read(ends[0], &told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
  Result<std::unique_ptr<LiveTrace>> trace = LiveTrace::Open(folder.path());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  ASSERT_TRUE(trace.ok()) << trace.message();
  while (MayGrow(trace.value()->Latest()->state) && trace.value()->status().ok()) {
    usleep(10'000);
  }
  ASSERT_TRUE(trace.value()->status().ok()) << trace.value()->status().message();
  ExpectCut(*trace.value()->Latest(), told);
}

TEST(MovedRun, IsCutAtItsNewPlace) {
  TestFolder folder;
  const std::string old_place = folder.path() + "/a";
  const std::string new_place = folder.path() + "/b";
  std::filesystem::create_directory(old_place);
  auto recorder = OpenRecorder(old_place);
  const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  recorder->Record(OpAt(plan_op, 0, 0, 0, 1));
  ASSERT_TRUE(recorder->Flush().ok());
  std::filesystem::rename(old_place, new_place);
  const Status finished = recorder->Finish();
  EXPECT_FALSE(finished.ok());
  EXPECT_NE(finished.message().find("was removed or replaced"), std::string::npos)
      << finished.message();
  recorder.reset();
  const Result<SnapshotPtr> snapshot = ReadSnapshot(new_place);
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  ExpectCut(*snapshot.value(), 1);
}

}  // namespace
}  // namespace shardscope::query
