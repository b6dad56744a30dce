#include "ui/shell/run/compare_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/compare/comparison.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::shell {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

CompareRequest AskFor(query::SnapshotPtr snapshot, const ui::ComparedWith& with) {
  return {std::move(snapshot), with};
}

ui::ComparedWith Ranges(int32_t first_b) {
  const auto steps = [](int32_t first, int32_t last) {
    return analysis::Scope{.kind = analysis::ScopeKind::kSteps, .first = first, .last = last};
  };
  return {"", steps(2, 7), steps(first_b, first_b + 5), 1};
}

// Of a worker's last answer, once there is one to this question.
std::shared_ptr<const ui::Compared> Wait(const CompareWorker& worker,
                                         const ui::ComparedWith& with) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < deadline) {
    auto latest = worker.Latest();
    if (latest != nullptr && latest->with == with) return latest;
    std::this_thread::sleep_for(2ms);
  }
  return nullptr;
}

TEST(CompareMaker, TwoRangesOfOneRunAreWhatTheCommandSays) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 16, 8);
  const ui::ComparedWith with = Ranges(9);
  const auto made = CompareMaker().Make(AskFor(snapshot, with), {});
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->error, "");
  const analysis::Comparison direct =
      analysis::Compare({snapshot.get(), *with.steps_a, snapshot->name},
                        {snapshot.get(), *with.steps_b, snapshot->name});
  EXPECT_EQ(PrintComparisonJson(made->comparison), PrintComparisonJson(direct));
  EXPECT_EQ(made->comparison.a.first_step, 2);
  EXPECT_EQ(made->comparison.b.last_step, 14);
}

// As many steps as fit, around those that are loaded of A.
TEST(CompareMaker, BIsAroundTheSameSteps) {
  const query::TestFolder folder;
  const auto recorder = query::OpenRecorder(folder.path());
  const auto op = query::AddPlanOp(recorder.get(), "F block0", "forward", "compute");
  for (int64_t step = 0; step < 64; ++step) {
    recorder->Record(query::OpAt(op, 0, step, 1000 * step, 1000 * step + 900));
    schema::StepRow row;
    row.step = step;
    row.start_ns = 1000 * step;
    row.end_ns = 1000 * step + 1000;
    recorder->Record(row);
  }
  ASSERT_TRUE(recorder->Finish().ok());
  query::Snapshot some = *analysis::MakeLessonSnapshot(2, 16, 99);
  some.part = query::RunPart{0, 15, 0, 99, 1};
  CompareMaker maker({}, 1);
  const auto made =
      maker.Make(AskFor(std::make_shared<query::Snapshot>(some), {folder.path(), {}, {}, 1}), {});
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->error, "");
  ASSERT_TRUE(made->b->part);
  EXPECT_TRUE(made->b->part->Contains(7));
  EXPECT_FALSE(made->b->part->Contains(63));
  EXPECT_EQ(made->comparison.b.last_step, 15);
  // Steps that were asked for come first.
  const analysis::Scope late{.kind = analysis::ScopeKind::kSteps, .first = 40, .last = 44};
  const auto asked =
      maker.Make(AskFor(std::make_shared<query::Snapshot>(some), {folder.path(), {}, late, 2}), {});
  EXPECT_EQ(asked->error, "");
  EXPECT_EQ(asked->comparison.b.first_step, 40);
  EXPECT_EQ(asked->comparison.b.last_step, 44);
  // Where B fits, its other steps do not count either.
  const auto whole = CompareMaker().Make(
      AskFor(std::make_shared<query::Snapshot>(some), {folder.path(), {}, {}, 1}), {});
  EXPECT_FALSE(whole->b->part);
  EXPECT_EQ(whole->comparison.b.last_step, 15);
}

TEST(CompareMaker, ARangeWithoutStepsIsNamedWithItsSide) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 12, 99);
  const auto made = CompareMaker().Make(AskFor(snapshot, Ranges(90)), {});
  ASSERT_NE(made, nullptr);
  EXPECT_THAT(made->error, HasSubstr("B: "));
}

TEST(CompareMaker, ARunThatIsNotThereIsAnErrorThatNamesIt) {
  const query::TestFolder folder;
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 6, 99);
  const std::string path = folder.path() + "/gone";
  CompareMaker maker;
  const auto made = maker.Make(AskFor(snapshot, {path, {}, {}, 1}), {});
  ASSERT_NE(made, nullptr);
  EXPECT_THAT(made->error, HasSubstr("gone"));
  // It is read again for a new question only.
  std::filesystem::create_directories(path);
  ASSERT_TRUE(query::OpenRecorder(path)->Finish().ok());
  EXPECT_EQ(maker.Make(AskFor(snapshot, {path, {}, {}, 1}), {})->error, made->error);
  EXPECT_EQ(maker.Make(AskFor(snapshot, {path, {}, {}, 2}), {})->error, "");
  // What was read serves newer rows of A, also when it is gone.
  std::filesystem::remove_all(path);
  EXPECT_EQ(
      maker.Make(AskFor(analysis::MakeLessonSnapshot(2, 8, 99), {path, {}, {}, 2}), {})->error, "");
}

TEST(CompareMaker, WhatIsStoppedIsNoAnswer) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CompareMaker().Make(AskFor(analysis::MakeLessonSnapshot(2, 6, 99), Ranges(2)),
                                stop.get_token()),
            nullptr);
}

TEST(CompareWorker, AnswersTheNewestQuestionAndForgets) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 16, 8);
  CompareWorker worker({});
  worker.Ask(AskFor(snapshot, Ranges(3)));
  worker.Ask(AskFor(snapshot, Ranges(9)));
  const auto made = Wait(worker, Ranges(9));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->comparison.b.first_step, 9);
  worker.Forget();
  EXPECT_EQ(worker.Latest(), nullptr);
}

TEST(CompareWorker, NewerRowsAreComparedWithoutBeingAskedFor) {
  const ui::ComparedWith with{"", {}, {}, 1};
  CompareWorker worker({});
  worker.Ask(AskFor(analysis::MakeLessonSnapshot(2, 6, 99), with));
  const auto first = Wait(worker, with);
  ASSERT_NE(first, nullptr);
  worker.Ask(AskFor(analysis::MakeLessonSnapshot(2, 12, 99), with));
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (worker.Latest() == first && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(worker.Latest()->comparison.a.num_steps, first->comparison.a.num_steps + 6);
}

}  // namespace
}  // namespace shardscope::shell
