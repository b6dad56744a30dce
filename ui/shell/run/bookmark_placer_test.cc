#include "ui/shell/run/bookmark_placer.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/lesson/lesson_snapshot.h"
#include "ui/timeline/steps.h"

namespace shardscope::shell {
namespace {

std::shared_ptr<ui::BookmarkList> ListOf(int count) {
  auto list = std::make_shared<ui::BookmarkList>();
  for (int step = 0; step < count; ++step) {
    list->all.push_back(bookmarks::NewBookmark("step=" + std::to_string(step), ""));
  }
  list->all.push_back(bookmarks::NewBookmark("no link at all", ""));
  return list;
}

TEST(BookmarkPlacer, FindsThemAFewAFrame) {
  const query::SnapshotPtr snapshot = analysis::MakeLessonSnapshot(2, 30, 12);
  const auto list = ListOf(30);
  BookmarkPlacer placer;
  ui::Bookmarks shown;
  int frames = 1;
  EXPECT_FALSE(placer.Update(*snapshot, list, &shown));
  while (!placer.Update(*snapshot, list, &shown)) ASSERT_LT(++frames, 100);
  EXPECT_GT(frames, 1);
  ASSERT_EQ(shown.times.size(), 31u);
  for (int step = 0; step < 30; ++step) {
    ASSERT_TRUE(shown.times[static_cast<size_t>(step)]);
    EXPECT_EQ(shown.times[static_cast<size_t>(step)]->start_ns,
              timeline::FindStep(*snapshot, step)->start_ns);
  }
  EXPECT_FALSE(shown.times.back());
}

TEST(BookmarkPlacer, FindsThoseOfStepsThatComeLater) {
  auto early = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 5, 12));
  auto late = std::make_shared<query::Snapshot>(*analysis::MakeLessonSnapshot(2, 12, 12));
  early->generation = 1;
  late->generation = 2;
  const auto list = ListOf(7);
  BookmarkPlacer placer;
  ui::Bookmarks shown;
  while (!placer.Update(*early, list, &shown)) {
  }
  EXPECT_TRUE(shown.times[4]);
  EXPECT_FALSE(shown.times[6]);
  EXPECT_TRUE(placer.Update(*late, list, &shown));  // not hurried
  late->generation = 3;
  placer.Update(*late, list, &shown);
  EXPECT_TRUE(shown.times[6]);
  // Another list is looked for anew.
  placer.Update(*late, ListOf(2), &shown);
  EXPECT_EQ(shown.times.size(), 3u);
  EXPECT_TRUE(shown.times[1]);
}

}  // namespace
}  // namespace shardscope::shell
