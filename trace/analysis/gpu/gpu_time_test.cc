#include "trace/analysis/gpu/gpu_time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trace/analysis/gpu/gpu_events.h"

namespace shardscope::analysis {
namespace {

using query::SpanCategory;

constexpr std::string_view kNcclKernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";

// One rank with work on streams 7 and 20, and the calls that launched it.
class GpuRun {
 public:
  GpuRun() {
    snapshot_.names.Append("");
    snapshot_.ranks.resize(1);
    snapshot_.meta["imported"] = "kineto";
    for (const int64_t stream : {7, 20}) {
      const query::TrackId track(stream);
      snapshot_.gpu_streams.push_back({.rank = 0, .track = track, .stream = stream});
    }
    snapshot_.tracks.push_back(
        {query::TrackId(100), 0, "GPU 0 stream 9 waits", query::TrackRole::kHost, 0});
  }

  query::Snapshot& snapshot() { return snapshot_; }

  int32_t Name(std::string_view name) {
    snapshot_.names.Append(std::string(name));
    return static_cast<int32_t>(snapshot_.names.size()) - 1;
  }

  // `launched_ns` below 0: by no call that is known.
  void Work(std::string_view name, int64_t stream, int64_t launched_ns, int64_t start_ns,
            int64_t end_ns, int32_t step = 0) {
    query::GpuWork work;
    work.track = query::TrackId(stream);
    work.name = Name(name);
    work.start_ns = start_ns;
    work.end_ns = end_ns;
    work.step = step;
    work.correlation = static_cast<int64_t>(snapshot_.ranks[0].gpu_work.size()) + 1;
    if (name.starts_with("nccl")) work.category = SpanCategory::kCommunication;
    if (name.starts_with("Mem")) {
      work.category = SpanCategory::kCopy;
      work.kind = query::GpuWorkKind::kCopyToDevice;
      work.bytes = 1000;
    }
    if (launched_ns >= 0) {
      work.launch_track = query::TrackId(1);
      work.launch_start_ns = launched_ns;
      work.launch_duration_ns = 500;
      Span(1, "cudaLaunchKernel", launched_ns, launched_ns + 500);
    }
    snapshot_.ranks[0].gpu_work.Append(work);
  }

  void Span(int64_t track, std::string_view name, int64_t start_ns, int64_t end_ns,
            SpanCategory category = SpanCategory::kHost) {
    query::Span span;
    span.track = query::TrackId(track);
    span.name = Name(name);
    span.start_ns = start_ns;
    span.end_ns = end_ns;
    span.category = category;
    snapshot_.ranks[0].spans.Append(span);
  }

  GpuTime Measure(GpuDefinition definition) const { return MeasureGpu(snapshot_, definition); }

 private:
  query::Snapshot snapshot_;
};

TEST(GpuTimeTest, ExactTimesAreUnionsInNanoseconds) {
  GpuRun run;
  run.Work("gemm", 7, 10, 1'001, 2'003);
  run.Work(kNcclKernel, 20, 20, 1'500, 3'000);
  run.Work("gemm", 7, 2'900, 3'007, 3'010);
  const GpuTime gpu = run.Measure(GpuDefinition::kExact);
  ASSERT_EQ(gpu.ranks.size(), 1U);
  const GpuRankTime& rank = gpu.ranks[0];
  EXPECT_EQ(rank.kernel_time_ns, 2'009);
  EXPECT_EQ(rank.compute_ns, 1'002 + 3);
  EXPECT_EQ(rank.idle_ns, 7);
  EXPECT_EQ(rank.non_compute_ns, 2'009 - 1'005 - 7);
  EXPECT_EQ(rank.communication_ns, 1'500);
  EXPECT_EQ(rank.overlap_ns, 503);
  EXPECT_EQ(rank.exposed_ns, 997);
  ASSERT_EQ(gpu.types.size(), 3U);
  EXPECT_EQ(gpu.types[0].type, "COMMUNICATION");
  EXPECT_EQ(gpu.types[0].sum_ns, 997);
  EXPECT_EQ(gpu.types[1].type, "COMPUTATION overlapping COMMUNICATION");
  EXPECT_EQ(gpu.types[1].sum_ns, 503);
  EXPECT_EQ(gpu.types[2].type, "COMPUTATION");
  EXPECT_EQ(gpu.types[2].sum_ns, 502);
}

TEST(GpuTimeTest, HtaRoundsStartsUpAndEndsDown) {
  GpuRun run;
  run.Work("gemm", 7, 10, 1'001, 2'999);        // 2 to 2 us
  run.Work(kNcclKernel, 20, 20, 3'100, 3'900);  // 4 to 3 us
  run.Work("gemm", 7, 2'900, 5'000, 7'000);     // as it is
  const GpuTime gpu = run.Measure(GpuDefinition::kHta);
  const GpuRankTime& rank = gpu.ranks.at(0);
  EXPECT_EQ(rank.kernel_time_ns, 5'000);
  EXPECT_EQ(rank.compute_ns, 2'000);
  EXPECT_EQ(rank.communication_ns, -1'000);
  EXPECT_EQ(rank.idle_ns, 5'000 - 1'000);
  EXPECT_EQ(rank.non_compute_ns, 5'000 - 4'000 - 2'000);
}

// 1,700,000,000,000,000.123 us lies between two doubles, 0 and 0.25 behind the point.
TEST(GpuTimeTest, HtaRoundsWhatADoubleHolds) {
  constexpr int64_t kDay = 1'700'000'000'000'000'000;
  GpuRun run;
  run.Work("gemm", 7, kDay, kDay + 100, kDay + 5'000);      // down to 0
  run.Work("gemm", 7, kDay, kDay + 10'126, kDay + 15'000);  // up to 10.25
  const GpuTime gpu = run.Measure(GpuDefinition::kHta);
  EXPECT_EQ(gpu.kernels.at(0).max_ns, 5'000);
  EXPECT_EQ(gpu.ranks.at(0).kernel_time_ns, 15'000);
  // Of a file that says what is to be added, HTA sees the rest, and rounds that.
  run.snapshot().config["imported.rank0.base_ns"] = std::to_string(kDay);
  const GpuTime with_base = run.Measure(GpuDefinition::kHta);
  EXPECT_EQ(with_base.ranks.at(0).kernel_time_ns, 14'000);
  EXPECT_EQ(with_base.kernels.at(0).max_ns, 4'000);
  run.snapshot().config["imported.rank0.base_ns"] = "1e400";
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).ranks.at(0).kernel_time_ns, 15'000);
}

TEST(GpuTimeTest, KindsAreThoseOfNames) {
  using enum GpuKind;
  EXPECT_EQ(HtaKindOfName("ncclKernel_AllGather"), kCommunication);
  EXPECT_EQ(HtaKindOfName("ncclSymkDevKernel"), kCommunication);
  EXPECT_EQ(HtaKindOfName("nccl_other"), kComputation);
  EXPECT_EQ(HtaKindOfName("void ncclKernel"), kComputation);
  EXPECT_EQ(HtaKindOfName("Memcpy HtoD (Pageable -> Device)"), kMemory);
  EXPECT_EQ(HtaKindOfName("Memset (Device)"), kMemory);
  EXPECT_EQ(HtaKindOfName("dma_in"), kMemory);
  EXPECT_EQ(HtaKindOfName("a dma"), kComputation);
  EXPECT_EQ(HtaKindOfName("hipMemcpyAsync"), kOther);
  EXPECT_EQ(HtaKindOfName("batched_Memset"), kComputation);
  EXPECT_EQ(HtaKindOfName("Context Sync"), kOther);
  EXPECT_EQ(HtaKindOfName("Stream Wait Event"), kComputation);
  EXPECT_EQ(HtaKindOfName("gemm"), kComputation);
}

TEST(GpuTimeTest, HtaCountsWaitsOfStreamsAsWork) {
  GpuRun run;
  run.Work("gemm", 7, 10, 10'000, 20'000);
  run.Span(100, "Stream Wait Event", 2'000, 3'000, SpanCategory::kWait);
  run.Span(1, "cudaStreamWaitEvent", 2'000, 3'000);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).ranks.at(0).kernel_time_ns, 18'000);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).ranks.at(0).compute_ns, 11'000);
  EXPECT_EQ(run.Measure(GpuDefinition::kExact).ranks.at(0).kernel_time_ns, 10'000);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).idle.size(), 1U);  // but streams have no gaps of them
}

TEST(GpuTimeTest, HtaLeavesOutWhatTheLastOfSeveralStepsLaunched) {
  GpuRun run;
  run.Span(1, "ProfilerStep#4", 0, 50'000);
  run.Work("gemm", 7, 1'000, 10'000, 20'000, 4);
  run.Work("gemm", 7, 60'000, 70'000, 80'000, 5);
  run.Work("gemm", 7, -1, 90'000, 95'000, 5);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).ranks.at(0).kernel_time_ns, 85'000);
  run.Span(1, "ProfilerStep#5", 50'000, 100'000);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).ranks.at(0).kernel_time_ns, 10'000);
  // It takes the step's mark on the GPU for another.
  run.Span(9, "ProfilerStep#4", 65'000, 70'000);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).ranks.at(0).kernel_time_ns, 70'000);

  const GpuTime exact = run.Measure(GpuDefinition::kExact);
  EXPECT_EQ(exact.ranks.at(0).kernel_time_ns, 85'000);
  ASSERT_EQ(exact.steps.size(), 2U);
  EXPECT_EQ(exact.steps[0].step, 4);
  EXPECT_EQ(exact.steps[0].ranks.at(0).kernel_time_ns, 10'000);
  EXPECT_EQ(exact.steps[1].step, 5);
  EXPECT_EQ(exact.steps[1].ranks.at(0).kernel_time_ns, 25'000);
  EXPECT_EQ(exact.steps[1].ranks.at(0).idle_ns, 10'000);
}

TEST(GpuTimeTest, GapsAreOfTheHostOfLaunchesOrOfOthers) {
  GpuRun run;
  run.Work("gemm", 7, 0, 1'000, 2'000);
  run.Work("gemm", 7, 0, 31'999, 40'000);       // 29.999 us later
  run.Work("gemm", 7, 0, 70'000, 80'000);       // 30 us
  run.Work("gemm", 7, 80'001, 90'000, 91'000);  // launched behind it
  run.Work("gemm", 7, -1, 95'000, 96'000);
  const GpuTime gpu = run.Measure(GpuDefinition::kExact);
  ASSERT_EQ(gpu.idle.size(), 1U);
  EXPECT_EQ(gpu.idle[0].stream, 7);
  EXPECT_EQ(gpu.idle[0].kernel_wait_ns, 29'999 + 4'000);
  EXPECT_EQ(gpu.idle[0].other_ns, 30'000);
  EXPECT_EQ(gpu.idle[0].host_wait_ns, 10'000);
  // HTA takes the first event of the file for the launch that is not known.
  run.snapshot().config["imported.rank0.first_event_ns"] = "93000";
  const GpuTime hta = run.Measure(GpuDefinition::kHta);
  EXPECT_EQ(hta.idle.at(0).host_wait_ns, 14'000);
  EXPECT_EQ(hta.idle.at(0).kernel_wait_ns, 0);
  EXPECT_EQ(hta.idle.at(0).other_ns, 60'000);  // 29.999 us are 30 there
}

TEST(GpuTimeTest, QueuesGrowWithLaunchesAndShrinkWithStarts) {
  GpuRun run;
  for (const int64_t launched_ns : {1'000, 2'000, 3'000}) {
    run.Work("gemm", 7, launched_ns, launched_ns + 10'000, launched_ns + 10'500);
  }
  run.Work("gemm", 7, -1, 500, 600);
  for (const GpuDefinition definition : {GpuDefinition::kExact, GpuDefinition::kHta}) {
    const GpuTime gpu = run.Measure(definition);
    ASSERT_EQ(gpu.queues.size(), 1U);
    const GpuDistribution& length = gpu.queues[0].length;  // 1 2 3 2 1 0
    EXPECT_EQ(length.count, 6);
    EXPECT_DOUBLE_EQ(length.mean, 1.5);
    EXPECT_NEAR(length.std, 1.0488088481701516, 1e-12);
    EXPECT_EQ(length.min, 0);
    EXPECT_EQ(length.p25, 1);
    EXPECT_EQ(length.p50, 1.5);
    EXPECT_EQ(length.p75, 2);
    EXPECT_EQ(length.max, 3);
  }
  // A call that HTA does not count puts nothing into its queues.
  run.Work("gemm", 20, -1, 40'000, 41'000);
  query::GpuWork last = run.snapshot().ranks[0].gpu_work.back();
  last.launch_track = query::TrackId(1);
  last.launch_start_ns = 39'000;
  run.Span(1, "cudaGraphLaunch", 39'000, 39'000);
  run.snapshot().ranks[0].gpu_work.Append(last);
  EXPECT_EQ(run.Measure(GpuDefinition::kHta).queues.size(), 1U);
  EXPECT_EQ(run.Measure(GpuDefinition::kExact).queues.size(), 2U);
}

TEST(GpuTimeTest, BandwidthsAreOfEachCopyOrOfAllAtOnce) {
  GpuRun run;
  run.Work("Memcpy HtoD (Pinned -> Device)", 7, 0, 1'000, 3'000);   // 0.5 bytes a ns
  run.Work("Memcpy HtoD (Pinned -> Device)", 20, 0, 2'000, 6'000);  // 0.25
  run.Work("Memset (Device)", 7, 0, 10'000, 10'500);                // 2, rounded to no length
  const GpuTime exact = run.Measure(GpuDefinition::kExact);
  ASSERT_EQ(exact.bandwidths.size(), 2U);
  EXPECT_EQ(exact.bandwidths[0].kind, "Memcpy HtoD");
  EXPECT_EQ(exact.bandwidths[0].count, 2);
  EXPECT_EQ(exact.bandwidths[0].bytes, 2'000);
  EXPECT_EQ(exact.bandwidths[0].time_ns, 6'000);
  EXPECT_DOUBLE_EQ(exact.bandwidths[0].bytes_per_second.mean, 0.375e9);
  EXPECT_EQ(exact.bandwidths[1].kind, "Memset");
  EXPECT_DOUBLE_EQ(exact.bandwidths[1].bytes_per_second.max, 2e9);
  const GpuTime hta = run.Measure(GpuDefinition::kHta);
  const GpuDistribution& rates = hta.bandwidths.at(0).bytes_per_second;  // 0.5 0.75 0.25, then none
  EXPECT_EQ(rates.count, 3);
  EXPECT_DOUBLE_EQ(rates.mean, 0.5e9);
  EXPECT_DOUBLE_EQ(rates.max, 0.75e9);
  EXPECT_EQ(hta.bandwidths.at(1).bytes_per_second.count, 1);
}

TEST(GpuTimeTest, WhatADamagedTraceClaimsOverflowsNothing) {
  GpuRun run;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  run.snapshot().config["imported.rank0.base_ns"] = std::to_string(kLeast);
  run.snapshot().config["imported.rank0.first_event_ns"] = std::to_string(kMost);
  for (int copies = 0; copies < 4; ++copies) {
    run.Work("gemm", 7, 0, kLeast, kMost);
    run.Work("gemm", 7, kMost - 500, kMost, kLeast);
    run.Work(kNcclKernel, 20, -1, 0, kMost);
    run.Work("Memset", 33, -1, kMost, kMost);
  }
  run.Span(100, "Stream Wait Event", kLeast, kMost, SpanCategory::kWait);
  run.Span(1, "ProfilerStep#99999999999999999999", kLeast, kMost);
  run.snapshot().ranks[0].gpu_work.Append({});
  for (const GpuDefinition definition : {GpuDefinition::kExact, GpuDefinition::kHta}) {
    const GpuTime gpu = run.Measure(definition);
    EXPECT_EQ(gpu.ranks.size(), 1U);
    EXPECT_FALSE(PrintGpuTime(gpu).empty());
  }
}

TEST(GpuTimeTest, WithoutRowsOfAGpuThereIsNothing) {
  GpuRun run;
  const GpuTime gpu = run.Measure(GpuDefinition::kExact);
  EXPECT_TRUE(gpu.ranks.empty());
  EXPECT_EQ(PrintGpuTime(gpu), "");
  EXPECT_EQ(ParseGpuDefinition("hta"), GpuDefinition::kHta);
  EXPECT_EQ(Name(GpuDefinition::kHta), "hta");
  EXPECT_FALSE(ParseGpuDefinition("HTA").has_value());
}

}  // namespace
}  // namespace shardscope::analysis
