#include "trace/query/find_op_run.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shardscope::query {
namespace {

TEST(FindOpRun, GivesTheRowOfAnIdAndNoneOfOneThatIsMissing) {
  RankRows rows;
  EXPECT_EQ(FindOpRun(rows, OpRunId(1)), std::nullopt);
  for (const int64_t id : {2, 3, 7}) {
    OpRun run;
    run.id = OpRunId(id);
    rows.op_runs.Append(run);
  }
  EXPECT_EQ(FindOpRun(rows, OpRunId(2)), size_t{0});
  EXPECT_EQ(FindOpRun(rows, OpRunId(7)), size_t{2});
  for (const int64_t id : {1, 4, 8}) EXPECT_EQ(FindOpRun(rows, OpRunId(id)), std::nullopt);
  EXPECT_EQ(FindOpRun(rows, OpRunId::None()), std::nullopt);
}

TEST(FindOpRun, GivesTheOpRunOfARankOrNone) {
  Snapshot snapshot;
  for (const int32_t rank : {0, 1}) {
    snapshot.ranks.emplace_back().rank = rank;
    for (const int64_t id : {2, 3}) {
      OpRun run;
      run.id = OpRunId(id + 10 * rank);
      run.started_ns = 100 * id + rank;
      snapshot.ranks.back().op_runs.Append(run);
    }
  }
  const std::optional<OpRun> found = FindOpRun(snapshot, 1, OpRunId(13));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->id, OpRunId(13));
  EXPECT_EQ(found->started_ns, 301);
  EXPECT_FALSE(FindOpRun(snapshot, 1, OpRunId(3)).has_value());  // of the other rank
  EXPECT_FALSE(FindOpRun(snapshot, 1, OpRunId(1'000'000)).has_value());
  EXPECT_FALSE(FindOpRun(snapshot, 1, OpRunId::None()).has_value());
  EXPECT_FALSE(FindOpRun(snapshot, 5, OpRunId(13)).has_value());
}

}  // namespace
}  // namespace shardscope::query
