#include "trace/analysis/collectives/communication_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/collectives/collective_table.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using testing::HasSubstr;

CommunicationMatrix MatrixOf(TestSnapshot* test) {
  const query::SnapshotPtr snapshot = test->Build();
  CommunicationMatrixMaker maker(*snapshot);
  ForEachCollective(*snapshot, 0, 99,
                    [&](std::span<const CollectiveMember> members) { maker.Add(members); });
  return maker.Take();
}

TEST(CommunicationMatrix, CollectivesGoRoundARing) {
  TestSnapshot test(3);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  test.op(gather).wire_bytes = 100;
  for (const int32_t rank : {2, 0, 1}) test.Run(rank, 0, gather, 10 * rank, 100);
  const CommunicationMatrix matrix = MatrixOf(&test);
  EXPECT_EQ(matrix.ranks, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(matrix.bytes, (std::vector<int64_t>{0, 100, 0, 0, 0, 100, 100, 0, 0}));
  EXPECT_EQ(matrix.unplaced_bytes, 0);
}

TEST(CommunicationMatrix, SendsGoToTheirPeerAndAllToAllToAllOthers) {
  TestSnapshot test(3);
  const query::PlanOpId exchange = test.Plan("send", "forward");
  test.op(exchange).wire_bytes = 101;
  for (int32_t rank = 0; rank < 3; ++rank) test.Run(rank, 0, exchange, 0, 100);
  const CommunicationMatrix matrix = MatrixOf(&test);
  EXPECT_EQ(matrix.bytes, (std::vector<int64_t>{0, 51, 50, 50, 0, 51, 51, 50, 0}));
}

TEST(CommunicationMatrix, WhatIsNotWholeHasNoPlace) {
  TestSnapshot test(3);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  test.op(gather).wire_bytes = 100;
  for (const int32_t rank : {0, 1}) {
    test.Run(rank, 0, gather, 0, 100);
    test.last_collective(rank).group_size = 3;
  }
  const CommunicationMatrix matrix = MatrixOf(&test);
  EXPECT_EQ(matrix.bytes, std::vector<int64_t>(9, 0));
  EXPECT_EQ(matrix.unplaced_bytes, 200);
  EXPECT_THAT(PrintMatrix(matrix, 2), HasSubstr("100 B of which it is not known to whom"));
}

TEST(CommunicationMatrix, AReceiveSendsNothingAndARootIsNotKnown) {
  TestSnapshot test(2);
  const query::PlanOpId send = test.Plan("send", "forward");
  const query::PlanOpId receive = test.Plan("receive", "forward");
  test.op(send).wire_bytes = test.op(receive).wire_bytes = 70;  // as once imported
  test.Run(0, 0, send, 0, 100);
  test.Run(1, 0, receive, 0, 100);
  const query::PlanOpId gather = test.Plan("gather", "forward");
  test.op(gather).wire_bytes = 30;
  test.Run(0, 0, gather, 200, 300);
  test.Run(1, 0, gather, 200, 300);
  const CommunicationMatrix matrix = MatrixOf(&test);
  EXPECT_EQ(matrix.bytes, (std::vector<int64_t>{0, 70, 0, 0}));
  EXPECT_EQ(matrix.unplaced_bytes, 60);
}

TEST(CommunicationMatrix, DoesNotOverflowAndIgnoresNegativeBytes) {
  TestSnapshot test(2);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  for (int32_t step = 0; step < 2; ++step) {
    for (const int32_t rank : {0, 1}) {
      test.Run(rank, step, gather, 100 * step, 100 * step + 50);
      test.last_collective(rank).wire_bytes = rank == 0 ? std::numeric_limits<int64_t>::max() : -5;
    }
  }
  const CommunicationMatrix matrix = MatrixOf(&test);
  EXPECT_EQ(matrix.At(0, 1), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(matrix.At(1, 0), 0);
}

// All that ranks send, by CollectiveTable's own sums.
TEST(CommunicationMatrix, HasAllBytesOfTheTable) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(4, 12, 6, 1);
  const CollectiveTable table = MakeCollectiveTable(*snapshot, {ScopeKind::kSteps, 2, 11, 2, -1});
  int64_t sent = table.matrix.unplaced_bytes;
  for (const int64_t bytes : table.matrix.bytes) sent += bytes;
  int64_t expected = 0;
  for (const CollectiveGroup& group : table.groups) expected += group.sums.wire_bytes;
  EXPECT_GT(expected, 0);
  EXPECT_EQ(sent, expected);
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(table.matrix.At(rank, rank), 0);
}

TEST(CommunicationMatrix, CellsShareRanksAndKeepTheSum) {
  CommunicationMatrix matrix;
  for (int32_t rank = 0; rank < 10; ++rank) matrix.ranks.push_back(rank);
  matrix.bytes.assign(100, 0);
  int64_t sum = 0;
  for (size_t rank = 0; rank < 10; ++rank) {
    matrix.bytes[rank * 10 + (rank + 1) % 10] = static_cast<int64_t>(rank) + 1;
    sum += static_cast<int64_t>(rank) + 1;
  }
  for (const size_t most : {size_t{1}, size_t{3}, size_t{10}, size_t{100}}) {
    int64_t of_cells = 0;
    for (const MatrixCell& cell : CellsOf(matrix, most)) {
      EXPECT_LT(cell.last_from, 10u);
      EXPECT_LT(cell.last_to, 10u);
      of_cells += cell.bytes;
    }
    EXPECT_EQ(of_cells, sum);
  }
  EXPECT_EQ(CellsOf(matrix, 1).size(), 1u);
  EXPECT_EQ(CellsOf(matrix, 10).size(), 10u);
  EXPECT_THAT(PrintMatrix(matrix, 1), HasSubstr("rank 9       10 B"));
}

TEST(CommunicationMatrix, OfManyRanksThePairsThatSendMost) {
  CommunicationMatrix matrix;
  for (int32_t rank = 0; rank < 40; ++rank) matrix.ranks.push_back(rank);
  matrix.bytes.assign(1600, 0);
  for (size_t rank = 0; rank < 40; ++rank) {
    matrix.bytes[rank * 40 + (rank + 1) % 40] = 1000 * (static_cast<int64_t>(rank) + 1);
  }
  const std::string text = PrintMatrix(matrix, 1);
  EXPECT_THAT(text, HasSubstr("  rank 39  rank 0       40.0 kB\n"));
  EXPECT_THAT(text, HasSubstr("  20 pairs more, --json has all\n"));
  EXPECT_EQ(PrintMatrix({}, 1), "");
}

}  // namespace
}  // namespace shardscope::analysis
