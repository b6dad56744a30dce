// Each row of a comparison leads to an op run of A that is of this row.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/compare/comparison.h"
#include "trace/query/find_op_run.h"

namespace shardscope::analysis {
namespace {

TEST(RowPlace, IsTheLongestOpOfTheRow) {
  const query::SnapshotPtr a = MakeLessonSnapshot(2, 10, 99);
  const query::SnapshotPtr b = MakeLessonSnapshot(2, 10, 2);
  const Comparison comparison = Compare({a.get(), {}, "a"}, {b.get(), {}, "b"});
  int found = 0;
  for (const ComparedRow& row : comparison.rows) {
    if (row.key.part == StepPart::kIdle || row.a_count == 0) continue;
    const auto run = query::FindOpRun(*a, row.place.rank, row.place.op_run);
    ASSERT_TRUE(run.has_value()) << row.key.kind << " " << row.key.unit;
    const query::PlanOp* op = a->FindPlanOp(run->plan_op);
    ASSERT_NE(op, nullptr);
    EXPECT_EQ(op->kind, row.key.kind);
    EXPECT_EQ(op->phase, row.key.phase);
    EXPECT_EQ(run->ended_ns - run->started_ns, row.place.length_ns);
    EXPECT_EQ(run->step, row.place.step);
    EXPECT_GE(static_cast<double>(row.place.length_ns) * row.a_count * 1.0001, row.a_busy_ns);
    ++found;
  }
  EXPECT_GT(found, 10);
}

TEST(RowPlace, WhatIsOnlyInOneIsAddedOrGone) {
  const query::SnapshotPtr one = MakeLessonSnapshot(1, 10, 99);
  const Comparison alike = Compare({one.get(), {}, "a"}, {one.get(), {}, "b"});
  for (const ComparedRow& row : alike.rows) EXPECT_EQ(StateOf(row), RowState::kAlike);
  ComparedRow row = alike.rows.front();
  row.key.part = StepPart::kCompute;
  row.a_count = 0;
  row.b_count = 1;
  EXPECT_EQ(StateOf(row), RowState::kAdded);
  std::swap(row.a_count, row.b_count);
  EXPECT_EQ(StateOf(row), RowState::kGone);
  row.key.part = StepPart::kIdle;
  EXPECT_EQ(StateOf(row), RowState::kAlike);
  row.b_has_next = false;
  EXPECT_EQ(StateOf(row), RowState::kGone);
  row.b_has_next = true;
  row.a_has_next = false;
  EXPECT_EQ(StateOf(row), RowState::kAdded);
}

}  // namespace
}  // namespace shardscope::analysis
