#include "trace/analysis/plan_op_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardscope::analysis {
namespace {

TEST(PlanOpTable, FindsWhatTheSnapshotFindsWhateverItsIds) {
  const std::vector<std::vector<int64_t>> files = {
      {}, {1, 2, 3}, {7, 8, 10}, {-3, 1}, {1, 1'000'000'000}, {INT64_MIN, INT64_MAX}};
  for (const std::vector<int64_t>& ids : files) {
    query::Snapshot snapshot;
    for (const int64_t id : ids) snapshot.plan_ops[query::PlanOpId(id)].op = 1;
    const PlanOpTable table(snapshot);
    std::vector<int64_t> asked = {INT64_MIN, -3, -1, 0, 1, 2, 9, 10, 11, INT64_MAX};
    asked.insert(asked.end(), ids.begin(), ids.end());
    for (const int64_t id : asked) {
      EXPECT_EQ(table.Find(query::PlanOpId(id)), snapshot.FindPlanOp(query::PlanOpId(id))) << id;
    }
  }
}

}  // namespace
}  // namespace shardscope::analysis
