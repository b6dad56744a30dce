// That leaving a run waits for nothing.
#include "ui/shell/run/session_closer.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/run/gate_test_util.h"

namespace shardscope::shell {
namespace {

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
  session.value()->AskForFigures({}, {}, &context);
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

}  // namespace
}  // namespace shardscope::shell
