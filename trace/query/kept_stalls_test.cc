#include "trace/query/kept_stalls.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace shardscope::query {
namespace {

schema::StallRow RowAt(int64_t step, const std::string& object, const std::string& sentence) {
  return {schema::StallId(),
          3,
          step,
          schema::OpRunId(10 + step),
          schema::PlanOpId(4),
          100 * step,
          100 * step + 7,
          schema::OpRunId(20),
          schema::OpRunId(21),
          schema::PlanOpId(5),
          "late_rank",
          object,
          sentence};
}

auto All(const schema::StallRow& row) {
  return std::tie(row.rank, row.step, row.op_run, row.plan_op, row.start_ns, row.end_ns,
                  row.waiting_op_run, row.blocking_op_run, row.blocking_plan_op, row.cause,
                  row.cause_object, row.sentence);
}

TEST(KeptStallsTest, RowsComeBackAsTheyWere) {
  const schema::StallRow first = RowAt(2, "rank 1", "late rank 1");
  const schema::StallRow second = RowAt(1, "rank", "1late rank 1");  // run together, the same text
  const schema::StallRow third = RowAt(2, "rank 1", "late rank 1");
  KeptStalls kept;
  kept.Add(first);
  kept.Add(second);
  kept.Add(third);
  ASSERT_EQ(kept.all().size(), 3u);
  EXPECT_EQ(&kept.WordsOf(kept.all()[0]), &kept.WordsOf(kept.all()[2]));
  const std::vector<const schema::StallRow*> expected = {&first, &second, &third};
  for (size_t i = 0; i < expected.size(); ++i) {
    const schema::StallRow row = kept.Row(kept.all()[i]);
    EXPECT_EQ(All(row), All(*expected[i]));
  }
}

}  // namespace
}  // namespace shardscope::query
