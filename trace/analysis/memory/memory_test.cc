#include "trace/analysis/memory/memory.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using query::MemoryCategory;

size_t Index(MemoryCategory category) { return static_cast<size_t>(category); }

TEST(MemoryPeaks, HaveALargest) {
  std::vector<MemoryPeak> peaks(3);
  EXPECT_EQ(LargestPeakBytes({}), 0);
  peaks[1].peak_bytes = 7;
  peaks[2].peak_bytes = 5;
  EXPECT_EQ(LargestPeakBytes(peaks), 7);
}

TEST(MemoryPeaks, SayWhichMomentIsLookedAtBlockByBlock) {
  std::vector<MemoryPeak> peaks(3);
  for (size_t at = 0; at < peaks.size(); ++at) {
    peaks[at].rank = static_cast<int32_t>(at);
    peaks[at].peak_time_ns = static_cast<int64_t>(at) * 10;
  }
  EXPECT_FALSE(BlocksAtPeak(peaks, {}));  // nothing was recorded
  peaks[1].peak_bytes = 7;
  peaks[2].peak_bytes = 5;
  EXPECT_EQ(BlocksAtPeak(peaks, {}), (query::BlocksQuery{.rank = 1, .at_ns = 10}));
  EXPECT_EQ(BlocksAtPeak(peaks, 2), (query::BlocksQuery{.rank = 2, .at_ns = 20}));
  EXPECT_FALSE(BlocksAtPeak(peaks, 0));
  EXPECT_FALSE(BlocksAtPeak(peaks, 3));
}

TEST(MemoryPeaks, DifferBetweenTheLedgers) {
  TestSnapshot test(1);
  const auto add = [&](MemoryCategory category, int64_t issued, int64_t executed, int64_t bytes) {
    query::MemoryEvent& event = test.Memory(0, category, executed, bytes);
    event.issued_ns = issued;
  };
  add(MemoryCategory::kParameterShard, 0, 0, 100);
  add(MemoryCategory::kUnshardedParameter, 1, 10, 400);
  add(MemoryCategory::kUnshardedParameter, 3, 20, -400);  // the host frees early
  add(MemoryCategory::kActivation, 4, 15, 50);            // really live together with the unit
  const MemoryPeak execution = MemoryPeaks(*test.Build()).front();
  EXPECT_EQ(execution.peak_bytes, 550);
  EXPECT_EQ(execution.peak_time_ns, 15);
  EXPECT_EQ(execution.at_peak[Index(MemoryCategory::kUnshardedParameter)], 400);
  EXPECT_EQ(execution.at_peak[Index(MemoryCategory::kActivation)], 50);
  const MemoryPeak issue = MemoryPeaks(*test.Build(), Ledger::kIssue).front();
  EXPECT_EQ(issue.peak_bytes, 500);
  EXPECT_EQ(issue.peak_time_ns, 1);
  EXPECT_EQ(issue.at_peak[Index(MemoryCategory::kActivation)], 0);
  EXPECT_EQ(issue.peak_of[Index(MemoryCategory::kActivation)], 50);
}

TEST(MemoryPeaks, AnAllocationBeforeAFreeOfTheSameTimeCounts) {
  TestSnapshot test(1);
  test.Memory(0, MemoryCategory::kCommunicationBuffer, 5, 100);
  test.Memory(0, MemoryCategory::kUnshardedParameter, 9, 100);
  test.Memory(0, MemoryCategory::kCommunicationBuffer, 9, -100);
  EXPECT_EQ(MemoryPeaks(*test.Build()).front().peak_bytes, 200);
}

TEST(MemoryPeaks, SayWhatTheDriverHandedOutAndWhatOfTheGpuWasInUse) {
  TestSnapshot test(2);
  query::RankRows& rows = test.snapshot().ranks[0];
  rows.segments.Append({20, 50, 0, 2});
  rows.segments.Append({10, 100, 0, 1});
  rows.segments.Append({30, -100, 0, 1});
  rows.device_used.Append({10, 700});
  rows.device_used.Append({20, 600});
  const std::vector<MemoryPeak> peaks = MemoryPeaks(*test.Build());
  EXPECT_EQ(peaks[0].driver_peak_bytes, 150);
  EXPECT_EQ(peaks[0].device_peak_bytes, 700);
  EXPECT_EQ(peaks[0].peak_bytes, 0);
  EXPECT_EQ(peaks[1].driver_peak_bytes, 0);
  EXPECT_EQ(peaks[1].device_peak_bytes, 0);
}

TEST(SegmentsOfNcclTest, AreThoseTakenInItsRangesAndTheirReturns) {
  query::Snapshot snapshot;
  snapshot.names.Append("");
  snapshot.names.Append("NCCL: ncclCommInitRank");
  snapshot.names.Append("torch: forward");
  snapshot.tracks.push_back({query::TrackId(7), 0, "thread 1", query::TrackRole::kHost, 0});
  query::RankRows rows;
  rows.spans.Append({query::SpanId(1), query::TrackId(7), 100, 200, 1, query::SpanCategory::kHost});
  rows.spans.Append({query::SpanId(2), query::TrackId(7), 300, 400, 2, query::SpanCategory::kHost});
  rows.segments.Append({150, 10, 0, 16});
  rows.segments.Append({350, 20, 0, 32});
  rows.segments.Append({450, -10, 0, 16});
  rows.segments.Append({150, 30, 1, 32});  // another GPU, the same address
  rows.segments.Append({460, -20, 0, 32});
  EXPECT_EQ(SegmentsOfNccl(snapshot, rows), (std::vector<bool>{true, false, true, true, false}));
}

}  // namespace
}  // namespace shardscope::analysis
