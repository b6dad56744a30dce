#include "ui/shell/run/index_maker.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/lesson/lesson_snapshot.h"
#include "ui/shell/run/gate_test_util.h"

namespace shardscope::shell {
namespace {

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
