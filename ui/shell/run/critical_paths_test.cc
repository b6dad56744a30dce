#include "ui/shell/run/critical_paths.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/lesson/lesson_snapshot.h"

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
