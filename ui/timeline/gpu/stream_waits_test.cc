#include "ui/timeline/gpu/stream_waits.h"

#include <gtest/gtest.h>

#include <memory>

#include "trace/analysis/snapshot_test_util.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/neighbour.h"

namespace shardscope::timeline {
namespace {

using Verdict = StreamWait::Verdict;

constexpr query::TrackId kGatherStream(101);
constexpr query::TrackId kComputeStream(102);

// One rank: a gather on its stream, then a copy-out and a forward of two kernels on another. The
// copy-out waits for the gather's event, as planned; the forward for nothing.
class StreamWaitsTest : public ::testing::Test {
 protected:
  StreamWaitsTest() {
    query::Snapshot& snapshot = test_.snapshot();
    snapshot.run_folder = "run";
    snapshot.names.Append("");
    snapshot.names.Append("gemm");
    for (const query::TrackId track : {kGatherStream, kComputeStream}) {
      snapshot.tracks.push_back({track, 0, "s", query::TrackRole::kCompute, 9});
      snapshot.gpu_streams.push_back({.rank = 0, .track = track, .stream = track.value()});
    }
    gather_run_ = test_.Run(0, 0, gather_, 10, 40).id;
    copy_run_ = test_.Run(0, 0, copy_out_, 45, 50).id;
    forward_run_ = test_.Run(0, 0, forward_, 50, 90).id;
    Work(1, kGatherStream, gather_, 10, 40);
    Work(2, kComputeStream, copy_out_, 45, 50);
    Work(3, kComputeStream, forward_, 50, 80);
    Work(4, kComputeStream, forward_, 80, 90);
    test_.Step(0, 0, 0, 100);
  }
  void Work(int64_t correlation, query::TrackId track, query::PlanOpId plan_op, int64_t start_ns,
            int64_t end_ns) {
    query::GpuWork work;
    work.id = query::SpanId(1000 + correlation);
    work.track = track;
    work.correlation = correlation;
    work.start_ns = start_ns;
    work.end_ns = end_ns;
    work.plan_op = plan_op;
    work.step = 0;
    work.name = 1;
    test_.snapshot().ranks[0].gpu_work.Append(work);
  }
  void Wait(int64_t from, int64_t to, query::PlanOpId from_op, query::PlanOpId to_op,
            int64_t recorded_ns = 40) {
    query::EventEdge edge;
    edge.from_track = kGatherStream;
    edge.to_track = kComputeStream;
    edge.from_correlation = from;
    edge.to_correlation = to;
    edge.recorded_ns = recorded_ns;
    edge.waited_ns = 12;
    edge.from_plan_op = from_op;
    edge.to_plan_op = to_op;
    edge.from_step = edge.step = 0;
    test_.snapshot().ranks[0].event_edges.Append(edge);
  }
  void Build() {
    snapshot_ = test_.Build();
    index_.Advance(*snapshot_);
    check_ = analysis::CheckEdges(*snapshot_);
  }
  std::vector<StreamWait> OfWork(uint32_t row) {
    return WaitsOfWork(*snapshot_, index_, &check_, 0, row);
  }
  std::vector<StreamWait> OfOp(query::OpRunId op_run) {
    const query::RankRows& rows = snapshot_->ranks[0];
    return WaitsOfOp(*snapshot_, &check_, 0, rows.op_runs[FindRow(rows, op_run)]);
  }

  analysis::TestSnapshot test_{1};
  query::PlanOpId gather_ = test_.Plan("all_gather", "forward", "block0");
  query::PlanOpId copy_out_ = test_.Plan("copy_out", "forward", "block0", "", {gather_});
  query::PlanOpId forward_ = test_.Plan("forward", "forward", "", "block0.mlp");
  query::OpRunId gather_run_;
  query::OpRunId copy_run_;
  query::OpRunId forward_run_;
  query::SnapshotPtr snapshot_;
  RunIndex index_;
  analysis::EdgeCheck check_;
};

TEST_F(StreamWaitsTest, AWaitAsPlannedHasBothEndsFromEitherSide) {
  Wait(1, 2, gather_, copy_out_);
  Build();
  for (const bool incoming : {true, false}) {
    const std::vector<StreamWait> waits = OfWork(incoming ? 1 : 0);
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(waits[0].incoming, incoming);
    EXPECT_EQ(waits[0].verdict, Verdict::kPlanned);
    EXPECT_EQ(waits[0].from.span, query::SpanId(1001));
    EXPECT_EQ(waits[0].from.time_ns, 40);
    EXPECT_EQ(waits[0].from.name, "AG block0");
    EXPECT_EQ(waits[0].to.span, query::SpanId(1002));
    EXPECT_EQ(waits[0].to.time_ns, 45);
    EXPECT_EQ(waits[0].to.track, kComputeStream);
    EXPECT_FALSE(waits[0].to.is_op);
    const std::vector<StreamWait> of_op = OfOp(incoming ? copy_run_ : gather_run_);
    ASSERT_EQ(of_op.size(), 1u);
    EXPECT_TRUE(of_op[0].from.is_op);
    EXPECT_EQ(of_op[0].from.op_run, gather_run_);
    EXPECT_EQ(of_op[0].to.op_run, copy_run_);
    EXPECT_EQ(of_op[0].incoming, incoming);
  }
  EXPECT_TRUE(OfWork(2).empty());
  EXPECT_TRUE(OfOp(forward_run_).empty());
}

TEST_F(StreamWaitsTest, WhatNothingPlansAndWhatNobodySawAreMarked) {
  Wait(1, 3, gather_, forward_);  // too late for the copy-out: weaker than planned
  Build();
  ASSERT_EQ(check_.missing, 1);
  const std::vector<StreamWait> of_copy = OfOp(copy_run_);
  ASSERT_EQ(of_copy.size(), 1u);
  EXPECT_EQ(of_copy[0].verdict, Verdict::kMissing);
  EXPECT_TRUE(of_copy[0].differs());
  EXPECT_EQ(of_copy[0].from.op_run, gather_run_);
  EXPECT_EQ(of_copy[0].waited_ns, 0);
  EXPECT_TRUE(OfWork(1).empty());  // of kernels only what was seen
}

TEST_F(StreamWaitsTest, AnExtraWaitIsOne) {
  Wait(1, 2, gather_, copy_out_);
  query::EventEdge back;
  back.from_track = kComputeStream;
  back.to_track = kGatherStream;
  back.from_correlation = 2;
  back.to_correlation = 1;
  back.from_plan_op = copy_out_;
  back.to_plan_op = gather_;
  back.from_step = back.step = 0;
  test_.snapshot().ranks[0].event_edges.Append(back);
  Build();
  const std::vector<StreamWait> waits = OfWork(0);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].verdict, Verdict::kPlanned);
  EXPECT_EQ(waits[1].verdict, Verdict::kExtra);
  EXPECT_TRUE(waits[1].incoming);
}

TEST_F(StreamWaitsTest, SeveralKernelsOfAnOpThatWaitAlikeAreOneLine) {
  Wait(1, 2, gather_, copy_out_);
  Wait(1, 3, gather_, forward_);
  Wait(1, 4, gather_, forward_);
  Build();
  EXPECT_EQ(OfOp(forward_run_).size(), 1u);
  EXPECT_EQ(OfOp(gather_run_).size(), 2u);
  EXPECT_EQ(OfWork(0).size(), 3u);
}

TEST_F(StreamWaitsTest, AnEndThatWasNotRecordedStandsAtItsTime) {
  Wait(77, 2, query::PlanOpId::None(), copy_out_);
  Build();
  const std::vector<StreamWait> waits = OfWork(1);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].verdict, Verdict::kUnknown);
  EXPECT_EQ(waits[0].from.number(), -1);
  EXPECT_EQ(waits[0].from.time_ns, 40);
  EXPECT_EQ(waits[0].from.track, kGatherStream);
  EXPECT_EQ(waits[0].from.name, "stream 101");
}

TEST_F(StreamWaitsTest, EndsThatWereNotRecordedAreNotOne) {
  Wait(77, 2, query::PlanOpId::None(), copy_out_);
  Wait(78, 2, query::PlanOpId::None(), copy_out_, 41);
  Wait(78, 2, query::PlanOpId::None(), copy_out_, 41);
  Build();
  EXPECT_EQ(OfWork(1).size(), 2u);
}

TEST_F(StreamWaitsTest, KernelsAndOpsFindEachOther) {
  Build();
  EXPECT_EQ(FirstWorkOf(*snapshot_, index_, 0, forward_run_), query::SpanId(1003));
  EXPECT_EQ(FirstWorkOf(*snapshot_, index_, 0, gather_run_), query::SpanId(1001));
  EXPECT_EQ(FirstWorkOf(*snapshot_, index_, 0, query::OpRunId(12345)), query::SpanId::None());
  EXPECT_EQ(FactsOfWork(*snapshot_, index_, 0, 3).op_run, forward_run_);
  EXPECT_EQ(FindWorkRow(snapshot_->ranks[0], query::SpanId(1002)), 1u);
  EXPECT_EQ(FindWorkRow(snapshot_->ranks[0], query::SpanId(5)), kNoRow);
}

TEST(FindWorkRowTest, FindsRowsThatAreNotInTheOrderOfTheirIds) {
  query::RankRows rows;
  for (const int64_t id : {5, 9, 2, 7}) {
    query::GpuWork work;
    work.id = query::SpanId(id);
    rows.gpu_work.Append(work);
  }
  EXPECT_EQ(FindWorkRow(rows, query::SpanId(2)), 2u);
  EXPECT_EQ(FindWorkRow(rows, query::SpanId(9)), 1u);
  EXPECT_EQ(FindWorkRow(rows, query::SpanId(3)), kNoRow);
}

TEST_F(StreamWaitsTest, TheKeysLeadAlongWaitsAndToWhatLaunchedAKernel) {
  Wait(1, 2, gather_, copy_out_);
  Build();
  auto index = std::make_shared<RunIndex>();
  index->Advance(*snapshot_);
  ui::Context context;
  context.snapshot = snapshot_;
  context.index = index;
  EXPECT_EQ(FindNeighbour(context, ui::Neighbour::kAlongBack), std::nullopt);
  const auto span_from = [&](int64_t correlation, ui::Neighbour which) {
    context.selection = {query::OpRunId::None(), 0, {}, query::SpanId(1000 + correlation)};
    const auto found = FindNeighbour(context, which);
    return found ? found->span.value() - 1000 : -1;
  };
  EXPECT_EQ(span_from(2, ui::Neighbour::kAlongBack), 1);
  EXPECT_EQ(span_from(1, ui::Neighbour::kAlongForward), 2);
  EXPECT_EQ(span_from(4, ui::Neighbour::kAlongForward), -1);
  EXPECT_EQ(span_from(3, ui::Neighbour::kNextOfName), 4);
  EXPECT_EQ(span_from(3, ui::Neighbour::kPreviousOfName), 2);
  // Kernel 3 waited for nothing.
  context.selection.span = query::SpanId(1003);
  EXPECT_EQ(FindNeighbour(context, ui::Neighbour::kAlongBack)->op_run, forward_run_);
  context.selection = {forward_run_, 0, {}};
  EXPECT_EQ(FindNeighbour(context, ui::Neighbour::kAlongForward)->span, query::SpanId(1003));
}

}  // namespace
}  // namespace shardscope::timeline
