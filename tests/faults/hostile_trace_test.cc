// Traces that lie: values no writer would write, in files of the right schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "trace/query/live_trace.h"
#include "trace/query/summary.h"
#include "trace/query/trace_test_util.h"
#include "trace/store/database.h"
#include "trace/store/run_files.h"

namespace shardscope::query {
namespace {

using testing::HasSubstr;

class HostileTrace : public testing::Test {
 protected:
  HostileTrace() {
    auto recorder = OpenRecorder(folder_.path());
    const PlanOpId plan_op = AddPlanOp(recorder.get(), "F block0", "forward", "compute");
    for (int i = 0; i < 100; ++i) {
      recorder->Record(OpAt(plan_op, i % 2, i / 10, 1000 + i, 1001 + i));
    }
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    path_ = store::ListTraces(folder_.path()).front().FinishedPath();
  }

  void Change(const std::string& sql) {
    Result<store::Database> database =
        store::Database::Open(path_, store::Database::Mode::kReadWrite);
    SHARDSCOPE_CHECK(database.ok());
    const Status changed = database->Execute(sql);
    ASSERT_TRUE(changed.ok()) << changed.message();
  }

  static int64_t Refused(const Snapshot& snapshot) {
    int64_t refused = 0;
    for (const Capability& row : snapshot.capabilities) {
      if (row.source == "reader") refused += row.dropped;
    }
    return refused;
  }

  TestFolder folder_;
  std::string path_;
};

TEST_F(HostileTrace, TextLargerThanAnyOfOursIsRefusedWithTheFileAndARemedy) {
  Change("INSERT INTO meta VALUES('x', CAST(zeroblob(70000000) AS TEXT))");
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
  ASSERT_FALSE(snapshot.ok());
  EXPECT_THAT(snapshot.message(), HasSubstr(path_));
  EXPECT_THAT(snapshot.message(), HasSubstr("copy it again"));
}

// The pages of a table's tree as one page again and again: rows would come back for ever.
TEST_F(HostileTrace, PagesThatPointAtOnePageAreNoticed) {
  Change(
      "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) "
      "INSERT INTO string SELECT i, 'text' FROM n");
  int64_t root = 0;
  {
    Result<store::Database> database =
        store::Database::Open(path_, store::Database::Mode::kReadOnly);
    root =
        database->QueryInteger("SELECT rootpage FROM sqlite_schema WHERE name = 'string'").value();
  }
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  std::array<char, 4096> page = {};
  file.seekg((root - 1) * 4096);
  file.read(page.data(), page.size());
  ASSERT_EQ(page[0], 5);  // an inner page of a table
  const auto number = [&page](size_t at) {
    return static_cast<size_t>(static_cast<uint8_t>(page[at]) << 8 |
                               static_cast<uint8_t>(page[at + 1]));
  };
  const size_t num_cells = number(3);
  ASSERT_GT(num_cells, 3u);
  for (size_t i = 1; i < num_cells; ++i) {
    std::copy_n(page.begin() + static_cast<std::ptrdiff_t>(number(12)), 4,
                page.begin() + static_cast<std::ptrdiff_t>(number(12 + 2 * i)));
  }
  file.seekp((root - 1) * 4096);
  file.write(page.data(), page.size());
  file.close();
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
  ASSERT_FALSE(snapshot.ok());
  EXPECT_THAT(snapshot.message(), HasSubstr(path_));
  EXPECT_THAT(snapshot.message(), HasSubstr("its table string repeats itself"));
}

TEST_F(HostileTrace, AbsurdNumbersAreLeftOutAndCounted) {
  Change(
      "UPDATE op_run SET slot_wait_ns = -9223372036854775807 - 1 WHERE id = 1;"
      "UPDATE op_run SET started_ns = 9223372036854775807 WHERE id = 2;"
      "UPDATE op_run SET rank = 9223372036854775807 WHERE id = 3;"
      "UPDATE op_run SET step = 9223372036854775807 WHERE id = 4;"
      "UPDATE op_run SET plan_op = 77 WHERE id = 5;"
      "INSERT INTO memory_event VALUES(1, 0, 'cpu', 1, 1, 9223372036854775807, 'other', '', -1, 0);"
      "INSERT INTO step VALUES(1, 0, 0, 1, 5, 4, 0, 0, 0)");
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_EQ(Refused(*snapshot.value()), 7);
  size_t rows = 0;
  for (const RankRows& rank : snapshot.value()->ranks) rows += rank.op_runs.size();
  EXPECT_EQ(rows, 95u);
}

// What a finished file derives is as little believed as its other rows.
TEST_F(HostileTrace, DerivedRowsThatCannotBeAreLeftOutAndCountedAndTheOthersSorted) {
  Change(
      "INSERT INTO step VALUES(1, 0, 0, 1, 1000, 2000, 0, 0, 0), (2, 1, 0, 1, 1000, 2000, 0, 0, 0),"
      "(3, 0, 1, 1, 2000, 3000, 0, 0, 0);"
      // Rank, step, then compute, communication, copy, overlap, exposed copy, slot wait.
      "INSERT INTO step_part VALUES(1, 0, 1, 500, 400, 0, 300, 0, 0),"
      "(2, 1, 0, 5, 0, 0, 0, 0, 0), (3, 0, 0, 4, 0, 0, 0, 0, 0), (4, 0, 0, 9, 0, 0, 0, 0, 0),"
      "(5, 0, 2, 0, 9223372036854775807, 0, -9223372036854775807, 0, 0),"
      "(6, 0, 2, 0, 1, 0, 1, 0, 0), (7, 99, 0, 0, 0, 0, 0, 0, 0),"
      "(8, 0, 9223372036854775807, 0, 0, 0, 0, 0, 0),"
      "(9, 0, 2, 0, 0, 0, 0, 0, -9223372036854775807);"
      "INSERT INTO stall VALUES(1, 0, 1, 1, 1, 5, 6, 1, 1, 1, 'tail', '', ''),"
      "(2, 0, 0, 1, 1, 3, 4, 1, 1, 1, 'no cause', '', ''),"
      "(3, 0, 0, 1, 1, -9223372036854775807, 9223372036854775807, 1, 1, 1, 'tail', '', ''),"
      "(4, 0, 0, 1, 1, 4, 3, 1, 1, 1, 'tail', '', '');"
      "INSERT INTO slow_collective VALUES(1, 1, 1, 0, 1, 'world', 1, 5, 6, 7, 0, 1, 1, 1),"
      "(2, 1, 1, 0, 0, 'world', 1, 5, 6, 7, 0, 1, 1, 1),"
      "(3, 1, 1, 0, 0, 'world', 1, 5, -9223372036854775807, 7, 0, 1, 1, 1),"
      "(4, 1, 1, 0, 0, 'world', 1, 5, 6, 7, 9223372036854775807, 1, 1, 1);"
      "INSERT INTO memory_peak VALUES(1, 1, -1, 'total', 7, 1, 7), (2, 0, -1, 'total', 8, 1, 8),"
      "(3, 0, -1, 'total', 9223372036854775807, 1, 8);"
      "INSERT INTO front_part VALUES(1, 1, 0, 'data', 7, 0), (2, 0, 0, 'data', 5, 5),"
      "(3, 0, 0, 'data', -1, 0), (4, 0, 0, 'data', 5, 6), (5, -9223372036854775807, 0, 'x', 1, 0);"
      "INSERT INTO path_part VALUES(1, 1, 0, 'copy', '', 7), (2, 0, 0, 'copy', '', 5),"
      "(3, 0, 0, 'copy', '', -9223372036854775807)");
  const Result<SnapshotPtr> summary = ReadSummary(folder_.path());
  ASSERT_TRUE(summary.ok()) << summary.message();
  ASSERT_NE(*summary, nullptr);
  const DerivedRows& derived = *(*summary)->derived;
  ASSERT_EQ(derived.step_parts.size(), 3u);
  EXPECT_EQ(derived.step_parts[0].compute_ns, 4);  // the first of two of rank 0 and step 0
  EXPECT_EQ(derived.step_parts[1].rank, 1);
  EXPECT_EQ(derived.step_parts[2].step, 1);
  ASSERT_EQ(derived.stalls.all().size(), 2u);
  EXPECT_EQ(derived.stalls.all()[0].step, 0);
  ASSERT_EQ(derived.slow_collectives.size(), 2u);
  EXPECT_EQ(derived.slow_collectives[0].step, 0);
  ASSERT_EQ(derived.memory_peaks.size(), 2u);
  EXPECT_EQ(derived.memory_peaks[0].rank, 0);
  ASSERT_EQ(derived.front_parts.size(), 2u);
  EXPECT_EQ(derived.front_parts[0].step, 0);
  ASSERT_EQ(derived.path_parts.size(), 2u);
  EXPECT_EQ(derived.path_parts[0].step, 0);
  EXPECT_EQ(Refused(**summary), 6 + 2 + 2 + 1 + 3 + 1);
}

TEST_F(HostileTrace, AFileThatClaimsMillionsOfRanksIsBounded) {
  Change(
      "WITH RECURSIVE n(i) AS (SELECT 20000 UNION ALL SELECT i - 1 FROM n WHERE i > 2) "
      "INSERT INTO rank SELECT i, 'h', 1, 'cpu' FROM n");
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_LT(snapshot.value()->ranks.size(), 10'000u);
  EXPECT_GT(Refused(*snapshot.value()), 10'000);
}

TEST_F(HostileTrace, DroppedCountsCannotOverflow) {
  Change(
      "INSERT INTO capability VALUES(100, 'engine', 'on', '', 9223372036854775807),"
      "(101, 'engine', 'on', '', 9223372036854775807)");
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  int64_t dropped = 0;
  for (const Capability& row : snapshot.value()->capabilities) {
    EXPECT_GE(row.dropped, 0);
    dropped += row.dropped;
  }
  EXPECT_GT(dropped, 0);
}

TEST_F(HostileTrace, ClockFactsOfAFileAreOnlyText) {
  Change(
      "INSERT INTO meta VALUES('clock.99999999999999999999', 'method=reference'),"
      "('clock.4000000000', 'method=collectives offset_ns=1 drift_ppb=1 collectives=1 "
      "residual_p50_ns=1 residual_p95_ns=1 residual_max_ns=1 processes=x'), ('clock.x', '')");
  const Result<SnapshotPtr> snapshot = ReadSnapshot(folder_.path());
  ASSERT_TRUE(snapshot.ok()) << snapshot.message();
  EXPECT_TRUE(snapshot.value()->clocks.empty());
}

TEST_F(HostileTrace, GeneratedColumnsAndLooseTypesAreRefused) {
  Change("ALTER TABLE flow ADD COLUMN x INTEGER GENERATED ALWAYS AS (id + 1) VIRTUAL");
  EXPECT_THAT(ReadSnapshot(folder_.path()).message(),
              HasSubstr("table flow is not as it should be"));
}

TEST_F(HostileTrace, TypesOfAnotherTableAreRefused) {
  Change(
      "DROP TABLE flow;"
      "CREATE TABLE flow(id INTEGER PRIMARY KEY NOT NULL, from_span, to_span, name_string)");
  EXPECT_THAT(ReadSnapshot(folder_.path()).message(),
              HasSubstr("table flow is not as it should be"));
}

}  // namespace
}  // namespace shardscope::query
