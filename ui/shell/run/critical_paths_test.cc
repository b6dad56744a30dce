#include "ui/shell/run/critical_paths.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/lesson/lesson_snapshot.h"
#include "ui/shell/run/gate_test_util.h"

namespace shardscope::shell {
namespace {

TEST(CriticalPathsTest, AStepThatIsNotOverShowsTheNewestThatIsAndPathsAreKept) {
  const query::SnapshotPtr lesson = analysis::MakeLessonSnapshot(2, 4, 2);
  CriticalPaths paths(nullptr);
  ui::CriticalPathState path{.is_on = true};
  const auto at = [&](int32_t step) {
    paths.Update(/*at_once=*/true, lesson, step, &path);
    return path.made;
  };
  const auto newest = at(99);
  ASSERT_NE(newest, nullptr);
  EXPECT_EQ(newest->step, analysis::NewestStepOfAll(*lesson));
  ASSERT_NE(at(1), nullptr);
  EXPECT_EQ(path.made->step, 1);
  EXPECT_EQ(at(-1), newest);  // not found anew
  path.is_on = false;
  EXPECT_EQ(at(1), nullptr);
}

// Its newest step changes faster than paths are found.
TEST(CriticalPathsTest, OfARunThatGoesOnThatOfAStepBeforeIsShownUntilTheNewestIsFound) {
  const auto live = [](int num_steps) {
    auto rows = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, num_steps, 99));
    rows->state = query::TraceState::kLive;
    return rows;
  };
  Gate gate;
  CriticalPaths paths([&gate] { gate.Wake(); });
  ui::CriticalPathState path{.is_on = true};
  paths.Update(/*at_once=*/false, live(4), 99, &path);
  gate.WaitUntilHeld();  // it is found
  paths.Update(false, live(6), 99, &path);
  ASSERT_NE(path.made, nullptr);
  EXPECT_EQ(path.made->step, 3);
  gate.Open();
}

TEST(CriticalPathsTest, OnlyOfARunThatGoesOnANewerStepLetsTheAnswerInTheMakingEnd) {
  const auto asks_the_same = [](int32_t step, int32_t made, bool goes_on) {
    return PathRequest{nullptr, step, goes_on}.Asks({nullptr, made, goes_on}) &&
           PlanRequest{nullptr, step, nullptr, goes_on}.Asks({nullptr, made, nullptr, goes_on});
  };
  EXPECT_TRUE(asks_the_same(5, 4, true));
  EXPECT_FALSE(asks_the_same(3, 4, true));
  EXPECT_FALSE(asks_the_same(5, 4, false));
  EXPECT_TRUE(asks_the_same(4, 4, false));
}

TEST(CriticalPathsTest, APreviewHasNone) {
  auto preview = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 4, 2));
  preview->loading = true;
  CriticalPaths paths(nullptr);
  ui::CriticalPathState path{.is_on = true};
  paths.Update(/*at_once=*/true, preview, 1, &path);
  EXPECT_EQ(path.made, nullptr);
  paths.Update(/*at_once=*/true, nullptr, 1, &path);
  EXPECT_EQ(path.made, nullptr);
}

}  // namespace
}  // namespace shardscope::shell
