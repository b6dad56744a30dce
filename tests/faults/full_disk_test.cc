// A disk that fills up costs records, which are counted, and nothing else.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::query {
namespace {

// As long as it lives, no file of this process may grow beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    SHARDSCOPE_CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    SHARDSCOPE_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    SHARDSCOPE_CHECK(setrlimit(RLIMIT_FSIZE, &before_) == 0);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
};

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

}  // namespace
}  // namespace shardscope::query
