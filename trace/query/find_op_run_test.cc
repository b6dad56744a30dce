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

}  // namespace
}  // namespace shardscope::query
