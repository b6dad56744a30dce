// An open run: what is made in the background, and that leaving it waits for nothing.
#include "ui/shell/run/run_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/base/mutex.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::shell {
namespace {

// Holds whoever calls Wake() until it is opened. Nobody waits for ever: a session that cannot be
// left would be a test that hangs.
class Gate {
 public:
  void Wake() {
    MutexLock lock(mutex_);
    ++held_;
    changed_.notify_all();
    gave_up_ |= !changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
    --held_;
  }
  void WaitUntilHeld() {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this] { return held_ > 0; });
  }
  void Open() {
    const MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int held() const {
    const MutexLock lock(mutex_);
    return held_;
  }
  bool gave_up() const {
    const MutexLock lock(mutex_);
    return gave_up_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int held_ = 0;
  bool open_ = false;
  bool gave_up_ = false;
};

TEST(SessionCloserTest, LeavingARunDoesNotWaitForItsThreads) {
  query::TestFolder folder;
  auto recorder = query::OpenRecorder(folder.path());
  const query::PlanOpId plan_op =
      query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  recorder->Record(query::OpAt(plan_op, 0, 0, 10, 20));
  ASSERT_TRUE(recorder->Flush().ok());
  Gate gate;
  auto session = RunSession::Open(folder.path(), [&gate] { gate.Wake(); });
  ASSERT_TRUE(session.ok()) << session.message();
  ui::Context context;
  session.value()->Update(0, &context);
  session.value()->AskForFigures({}, &context);
  gate.WaitUntilHeld();
  {
    SessionCloser closer;
    closer.Close(std::move(session).value());
    EXPECT_GT(gate.held(), 0);  // it still runs: it was not waited for
    EXPECT_FALSE(gate.gave_up());
    gate.Open();
  }  // waits until the session has ended
  EXPECT_EQ(gate.held(), 0);
}

TEST(SessionCloserTest, EndsEverySessionThatWasLeft) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(2, 4, 2);
  {
    SessionCloser closer;
    closer.Close(nullptr);
    for (int i = 0; i < 5; ++i) closer.Close(RunSession::OfSnapshot(lesson));
  }
  EXPECT_EQ(lesson.use_count(), 1);
}

TEST(RunSessionTest, APictureOfARunHasItsLogOnce) {
  query::TestFolder folder;
  std::ofstream(std::filesystem::path(folder.path()) / "log.txt") << "12:00 began\n12:01 ended\n";
  auto snapshot = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 2, 1));
  snapshot->run_folder = folder.path();
  const auto session = RunSession::OfSnapshot(snapshot);
  ui::Context context;
  for (int frame = 0; frame < 3; ++frame) session->Update(frame, &context);
  EXPECT_EQ(context.log, (std::vector<std::string>{"12:00 began", "12:01 ended"}));
}

// What a view that moves asks for all the time: the report of the same rows is not made anew.
TEST(FindingsMakerTest, OtherFiguresOfTheSameSnapshotShareItsReport) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(2, 12, 6);
  const analysis::Scope part{.kind = analysis::ScopeKind::kSteps, .first = 3, .last = 5};
  FindingsMaker maker;
  const FindingsPtr whole = maker.Make({.snapshot = lesson});
  const FindingsPtr some = maker.Make({.snapshot = lesson, .scope = part});
  EXPECT_EQ(some->report, whole->report);
  EXPECT_EQ(whole->figures->scope.last, 11);
  EXPECT_EQ(some->figures->scope.first, 3);
  EXPECT_EQ(some->figures->scope.last, 5);
  const analysis::Report expected = analysis::MakeReport(*lesson, {.scope = part});
  EXPECT_EQ(some->figures->summary.step_ns.p50, expected.figures.summary.step_ns.p50);
  EXPECT_EQ(some->figures->stalls.size(), expected.figures.stalls.size());
  // Rows that came since are in it.
  auto more = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 14, 6));
  more->generation = lesson->generation + 1;
  EXPECT_EQ(maker.Make({.snapshot = more})->figures->scope.last, 13);
}

// What panels behind others would show is not made.
TEST(FindingsMakerTest, RanksAndCollectivesAreMadeWhereTheyAreAskedFor) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(3, 12, 6, 1);
  const analysis::Scope part{.kind = analysis::ScopeKind::kSteps, .first = 3, .last = 5};
  FindingsMaker maker;
  EXPECT_EQ(maker.Make({.snapshot = lesson})->ranks, nullptr);
  const FindingsPtr ranks = maker.Make({.snapshot = lesson, .ranks = true});
  ASSERT_NE(ranks->ranks, nullptr);
  EXPECT_EQ(ranks->collectives, nullptr);
  EXPECT_EQ(ranks->ranks->scope.last, 11);
  EXPECT_EQ(ranks->ranks->grid->steps.size(), 12u);
  const FindingsPtr both =
      maker.Make({.snapshot = lesson, .scope = part, .ranks = true, .collectives = true});
  EXPECT_EQ(both->ranks->grid, ranks->ranks->grid);  // of the whole run
  EXPECT_EQ(both->ranks->scope.last, 5);
  EXPECT_EQ(both->collectives->scope.last, 5);
  EXPECT_EQ(both->collectives->steps.size(), 3u);
  EXPECT_EQ(maker.Make({.snapshot = lesson, .scope = part, .ranks = true})->ranks, both->ranks);
  auto loading = std::make_shared<query::Snapshot>(*lesson);
  loading->loading = true;  // it lacks rows
  EXPECT_EQ(maker.Make({.snapshot = loading, .ranks = true})->ranks, nullptr);
}

TEST(IndexMakerTest, MakesTheIndexThatFramesWouldMake) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(4, 60, 12);
  timeline::RunIndex expected;
  ASSERT_TRUE(expected.Advance(*lesson));
  Gate gate;
  IndexMaker maker(lesson, [&gate] { gate.Wake(); });
  gate.WaitUntilHeld();
  EXPECT_TRUE(maker.ready());
  const auto index = maker.Take();
  gate.Open();
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(maker.Take(), nullptr);
  EXPECT_TRUE(index->Advance(*lesson));  // nothing is missing
  ASSERT_EQ(index->ranks().size(), expected.ranks().size());
  for (size_t rank = 0; rank < expected.ranks().size(); ++rank) {
    for (size_t kind = 0; kind < expected.ranks()[rank].columns.size(); ++kind) {
      EXPECT_EQ(index->ranks()[rank].columns[kind].size(),
                expected.ranks()[rank].columns[kind].size());
    }
  }
}

TEST(IndexMakerTest, MayBeLeftWhileItWorks) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(4, 200, 12);
  { const IndexMaker maker(lesson, nullptr); }
  EXPECT_EQ(lesson.use_count(), 1);
}

}  // namespace
}  // namespace shardscope::shell
