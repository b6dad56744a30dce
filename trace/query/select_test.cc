#include "trace/query/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "trace/query/trace_test_util.h"

namespace shardscope::query {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Cells, AreShownShorterThanTheyAre) {
  EXPECT_EQ(ShownText(Cell(1.0 / 3)), "0.333333");
  EXPECT_EQ(ExactText(Cell(1.0 / 3)), "0.3333333333333333");
  EXPECT_EQ(ShownText(Cell(int64_t{12'345'678})), "12345678");
  EXPECT_EQ(ShownText(Cell(std::string("a"))), "a");
  EXPECT_EQ(ShownText(Cell()), "");
}

// A run of five runs of one op, on two ranks in turn, of 1 to 5 ms.
class SelectTest : public ::testing::Test {
 protected:
  SelectTest() {
    const auto recorder = OpenRecorder(folder_.path());
    const PlanOpId op = AddPlanOp(recorder.get(), "F block0", "compute", "forward");
    for (int64_t i = 0; i < 5; ++i) {
      recorder->Record(
          OpAt(op, i % 2, 0, 700 + i * 10'000'000, 700 + i * 10'000'000 + (i + 1) * 1'000'000));
    }
    SHARDSCOPE_CHECK(recorder->Finish().ok());
  }

  Result<SelectedRows> Ask(const std::string& sql, size_t max_rows = 100) const {
    return Select(folder_.path(), sql, max_rows, {});
  }

  const TestFolder folder_;
};

TEST_F(SelectTest, GivesRowsWithTheirTypes) {
  const Result<SelectedRows> found =
      Ask("SELECT op, r.rank, r.ended_ns - r.started_ns AS took, 0.5, NULL, x'0102' FROM v_op_run "
          "v JOIN op_run r ON r.id = v.id ORDER BY r.started_ns DESC");
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_THAT(found->names, Contains("took"));
  ASSERT_EQ(found->rows.size(), 5u);
  EXPECT_FALSE(found->is_cut);
  EXPECT_EQ(found->origin_ns, std::nullopt);
  EXPECT_THAT(found->rows[0],
              ElementsAre(Cell(std::string("F block0")), Cell(int64_t{0}), Cell(int64_t{5'000'000}),
                          Cell(0.5), Cell(), Cell(std::string("<2 bytes>"))));
}

TEST_F(SelectTest, KnowsWhatMillisecondsCountFrom) {
  EXPECT_EQ(Ask("SELECT started_ms FROM v_op_run WHERE rank = 1")->origin_ns, 700);
}

TEST_F(SelectTest, KeepsNoMoreRowsThanItIsAskedFor) {
  EXPECT_TRUE(Ask("SELECT id FROM op_run", 4)->is_cut);
  EXPECT_EQ(Ask("SELECT id FROM op_run", 4)->rows.size(), 4u);
  EXPECT_FALSE(Ask("SELECT id FROM op_run", 5)->is_cut);
  EXPECT_EQ(Ask("SELECT id FROM op_run WHERE 0", 5)->names, std::vector<std::string>{"id"});
}

TEST_F(SelectTest, RefusesWhatIsNoSelect) {
  EXPECT_THAT(Ask("DELETE FROM op_run").message(), HasSubstr("only read: give a SELECT"));
  EXPECT_THAT(Ask("SELECT 1; SELECT 2").message(), HasSubstr("one SQL statement at a time"));
  EXPECT_THAT(Ask("").message(), HasSubstr("no SQL statement"));
  EXPECT_THAT(Ask("SELECT * FROM op_runs").message(), HasSubstr("did you mean op_run?"));
  EXPECT_THAT(Ask("SELECT started FROM op_run").message(),
              HasSubstr("did you mean started_ns? op_run has id, plan_op, rank,"));
  EXPECT_THAT(Select("/nowhere", "SELECT 1", 1, {}).message(), HasSubstr("/nowhere"));
}

TEST_F(SelectTest, EndsWhenItIsAskedTo) {
  const std::string endless =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
  std::stop_source stop;
  std::jthread asker([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  EXPECT_THAT(Select(folder_.path(), endless, 1, stop.get_token()).message(),
              HasSubstr("interrupted"));
}

TEST_F(SelectTest, ListsWhatCanBeSelectedFrom) {
  const Result<std::vector<TableColumns>> tables = TablesOf(folder_.path());
  ASSERT_TRUE(tables.ok()) << tables.message();
  const auto find = [&](const std::string& name) {
    return *std::ranges::find(*tables, name, &TableColumns::table);
  };
  EXPECT_TRUE(find("v_op_run").is_view);
  EXPECT_THAT(find("v_op_run").columns, Contains("duration_ms"));
  EXPECT_FALSE(find("op_run").is_view);
  EXPECT_THAT(find("op_run").columns, Contains("started_ns"));
  EXPECT_TRUE(tables->front().is_view);
  EXPECT_FALSE(tables->back().is_view);
}

}  // namespace
}  // namespace shardscope::query
