#include "ui/panels/sql/row_target.h"

#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::panels {
namespace {

constexpr int64_t kOriginNs = 1000;

class RowTargetTest : public ::testing::Test {
 protected:
  ui::Commands Show(const std::vector<std::string>& names,
                    const std::vector<query::Cell>& cells) const {
    return CommandsToShow(*snapshot_, kOriginNs, names, cells);
  }

  const query::SnapshotPtr snapshot_ = analysis::MakeLessonSnapshot(2, 4, 99);
};

TEST_F(RowTargetTest, SelectsTheOpRunOnItsRank) {
  const query::OpRun& run = snapshot_->ranks[1].op_runs[0];
  for (const char* column : {"op_run", "id"}) {
    const ui::Commands commands = Show({"ready_ms", column}, {1.5, run.id.value()});
    ASSERT_EQ(commands.size(), 1u) << column;
    EXPECT_EQ(std::get<ui::ShowOp>(commands[0]).op_run, run.id);
    EXPECT_EQ(std::get<ui::ShowOp>(commands[0]).rank, snapshot_->ranks[1].rank);
  }
  // The id of something else.
  EXPECT_TRUE(Show({"id"}, {run.id.value()}).empty());
  EXPECT_TRUE(Show({"op_run"}, {int64_t{1} << 60}).empty());
}

TEST_F(RowTargetTest, ShowsTheTimeOfWhatIsNoOp) {
  const int64_t start_ns = snapshot_->start_ns + 1'000'000;
  const ui::Commands by_end =
      Show({"start_ns", "end_ns", "step"}, {start_ns, start_ns + 200'000, int64_t{1}});
  ASSERT_EQ(by_end.size(), 2u);
  EXPECT_EQ(std::get<ui::SetView>(by_end[1]).start_ns, start_ns - 80'000);
  EXPECT_EQ(std::get<ui::SetView>(by_end[1]).end_ns, start_ns + 280'000);

  const double start_ms = static_cast<double>(start_ns - kOriginNs) / 1e6;
  const ui::Commands by_duration = Show({"start_ms", "duration_ms"}, {start_ms, 0.2});
  ASSERT_EQ(by_duration.size(), 2u);
  EXPECT_EQ(std::get<ui::SetView>(by_duration[1]).start_ns, start_ns - 80'000);
  EXPECT_EQ(std::get<ui::SetView>(by_duration[1]).end_ns, start_ns + 280'000);

  // Whole milliseconds, as started_ns/1000000 makes them.
  const int64_t whole_ms = (snapshot_->start_ns - kOriginNs) / 1'000'000 + 1;
  const ui::Commands by_whole = Show({"start_ms", "duration_ms"}, {whole_ms, int64_t{1}});
  ASSERT_EQ(by_whole.size(), 2u);
  EXPECT_EQ(std::get<ui::SetView>(by_whole[1]).start_ns,
            kOriginNs + whole_ms * 1'000'000 - 400'000);

  EXPECT_TRUE(Show({"time_ns"}, {snapshot_->end_ns + 1}).empty());
  EXPECT_TRUE(CommandsToShow(*snapshot_, std::nullopt, {"start_ms"}, {start_ms}).empty());
}

TEST_F(RowTargetTest, GoesToTheStepWhereThereIsNoMore) {
  const ui::Commands commands = Show({"rank", "step"}, {int64_t{0}, int64_t{3}});
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(std::get<ui::ShowStep>(commands[1]).step, 3);
  EXPECT_TRUE(Show({"step"}, {std::string("3")}).empty());
  EXPECT_TRUE(Show({"step"}, {int64_t{-1}}).empty());
  EXPECT_TRUE(Show({"n"}, {int64_t{3}}).empty());
}

}  // namespace
}  // namespace shardscope::panels
