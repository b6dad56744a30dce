#include "trace/analysis/gpu/kernels.h"

#include <gtest/gtest.h>

#include "trace/analysis/report/report.h"

namespace shardscope::analysis {
namespace {

query::GpuWork Work(query::SpanCategory category, int64_t start_ns, int64_t end_ns) {
  query::GpuWork work;
  work.start_ns = start_ns;
  work.end_ns = end_ns;
  work.category = category;
  return work;
}

TEST(KernelsTest, UnionsAndPairsOfEachRankAreAddedUp) {
  query::Snapshot snapshot;
  snapshot.names.Append("");
  snapshot.ranks.resize(3);  // the last one without a GPU
  using query::SpanCategory;
  for (int rank = 0; rank < 2; ++rank) {
    query::RowList<query::GpuWork>& rows = snapshot.ranks[static_cast<size_t>(rank)].gpu_work;
    snapshot.ranks[static_cast<size_t>(rank)].rank = rank;
    rows.Append(Work(SpanCategory::kCompute, 0, 100));
    rows.Append(Work(SpanCategory::kCompute, 50, 120));  // of another stream
    rows.Append(Work(SpanCategory::kCompute, 200, 300));
    rows.Append(Work(SpanCategory::kCommunication, 80, 180));
    rows.Append(Work(SpanCategory::kCommunication, 250, 260));
    query::GpuWork copy = Work(SpanCategory::kCopy, 300, 310);
    copy.kind = query::GpuWorkKind::kCopyToHost;
    rows.Append(copy);
  }
  query::GpuWork lost = Work(SpanCategory::kCompute, 500, 500);
  lost.times = query::GpuTimes::kLost;
  snapshot.ranks[0].gpu_work.Append(lost);
  snapshot.ranks[2].rank = 2;

  snapshot.tracks.push_back({query::TrackId(7), 0, "tracer overhead", query::TrackRole::kHost, 9});
  query::Span overhead;
  overhead.track = query::TrackId(7);
  overhead.end_ns = 25;
  snapshot.ranks[0].spans.Append(overhead);
  overhead.track = query::TrackId(8);  // of another name
  snapshot.ranks[0].spans.Append(overhead);

  const KernelSummary summary = SummarizeKernels(snapshot);
  EXPECT_EQ(summary.overhead_ns, 25);
  EXPECT_EQ(summary.num_ranks, 2);
  EXPECT_EQ(summary.kernels, 11);
  EXPECT_EQ(summary.copies, 2);
  EXPECT_EQ(summary.joined, 0);
  EXPECT_EQ(summary.without_times, 1);
  EXPECT_EQ(summary.compute_ns, 2 * 220);
  EXPECT_EQ(summary.communication_ns, 2 * 110);
  EXPECT_EQ(summary.overlap_ns, 2 * 50);
  EXPECT_EQ(summary.exposed_ns(), 2 * 60);
  EXPECT_EQ(summary.copy_ns, 2 * 10);
  EXPECT_EQ(summary.overlapping_pairs, 2 * 3);
  const std::string text = PrintKernels(summary);
  EXPECT_NE(text.find("11 kernels"), std::string::npos) << text;
  EXPECT_NE(text.find("6 pairs"), std::string::npos) << text;
}

TEST(KernelsTest, AnOpSaysWhatItsKernelIsFor) {
  query::Snapshot snapshot;
  snapshot.names.Append("");
  snapshot.ranks.resize(1);
  query::PlanOp gather;
  gather.id = query::PlanOpId(4);
  gather.category = query::Category::kCommunication;
  snapshot.plan_ops[gather.id] = gather;
  query::GpuWork work = Work(query::SpanCategory::kCompute, 0, 10);  // by its name no collective
  work.plan_op = query::PlanOpId(4);
  snapshot.ranks[0].gpu_work.Append(work);
  const KernelSummary summary = SummarizeKernels(snapshot);
  EXPECT_EQ(summary.communication_ns, 10);
  EXPECT_EQ(summary.compute_ns, 0);
  EXPECT_DOUBLE_EQ(summary.join_rate(), 1);
}

TEST(KernelsTest, WithoutAGpuTheReportSaysNothing) {
  const KernelSummary summary = SummarizeKernels({});
  EXPECT_EQ(PrintKernels(summary), "");
  EXPECT_EQ(PrintReportJson({}).find("kernels"), std::string::npos);
}

}  // namespace
}  // namespace shardscope::analysis
