#include "ui/timeline/gpu/track_index.h"

#include <gtest/gtest.h>

#include <string_view>

#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/lane.h"
#include "ui/timeline/lane_source.h"
#include "ui/timeline/lanes_test_util.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

constexpr int64_t kUs = 1000;
constexpr query::TrackId kThreadTrack(1);
constexpr query::TrackId kStream(2);
constexpr query::TrackId kNcclStream(3);

// Two ranks that recorded a program: kernels on two streams, ranges on one thread.
class TrackIndexTest : public testing::Test {
 protected:
  TrackIndexTest() {
    snapshot_.generation = 1;
    snapshot_.state = query::TraceState::kFinished;
    snapshot_.run_folder = "run";
    snapshot_.names.Append("");
    for (int32_t rank = 0; rank < 2; ++rank) {
      snapshot_.ranks.emplace_back().rank = rank;
      AddTrack(rank, kThreadTrack, "thread 4711");
      AddTrack(rank, kStream, "GPU 0 context 1 stream 7");
      AddTrack(rank, kNcclStream, "GPU 0 context 1 stream 13");
      AddStream(rank, kStream, 7);
      AddStream(rank, kNcclStream, 13);
    }
    snapshot_.communicators = {"abc"};
  }

  static query::TrackId TrackOf(int32_t rank, query::TrackId track) {
    return query::TrackId(rank * 100 + track.value());
  }
  void AddTrack(int32_t rank, query::TrackId track, const std::string& name) {
    snapshot_.tracks.push_back({TrackOf(rank, track), rank, name, query::TrackRole::kHost,
                                static_cast<int32_t>(track.value())});
  }
  void AddStream(int32_t rank, query::TrackId track, int64_t stream) {
    snapshot_.gpu_streams.push_back({.rank = rank,
                                     .track = TrackOf(rank, track),
                                     .process = rank,
                                     .device = 0,
                                     .context = 1,
                                     .stream = stream});
  }
  int32_t Name(const std::string& text) {
    snapshot_.names.Append(text);
    return static_cast<int32_t>(snapshot_.names.size()) - 1;
  }
  query::GpuWork Kernel(int32_t rank, query::TrackId track, int64_t start_us, int64_t end_us) {
    query::GpuWork work;
    work.id = query::SpanId(next_id_++);
    work.track = TrackOf(rank, track);
    work.start_ns = start_us * kUs;
    work.end_ns = end_us * kUs;
    work.launch_track = TrackOf(rank, kThreadTrack);
    work.launch_start_ns = work.start_ns - 20 * kUs;
    work.launch_duration_ns = 5 * kUs;
    work.channel_kind = query::ChannelKind::kCompute;
    snapshot_.end_ns = std::max(snapshot_.end_ns, work.end_ns);
    return work;
  }
  void AddRange(int64_t start_us, int64_t end_us) {
    query::Span span;
    span.id = query::SpanId(next_id_++);
    span.track = TrackOf(0, kThreadTrack);
    span.start_ns = start_us * kUs;
    span.end_ns = end_us * kUs;
    snapshot_.ranks[0].spans.Append(span);
  }
  query::RankRows& Rows(size_t rank) { return snapshot_.ranks[rank]; }

  query::Snapshot snapshot_;
  int64_t next_id_ = 1;
};

TEST_F(TrackIndexTest, EveryStreamAndLevelHasItsLane) {
  AddRange(0, 100);  // in any order
  AddRange(10, 20);
  AddRange(30, 40);
  AddRange(5, 50);
  AddRange(55, 80);
  AddRange(60, 70);
  Rows(0).gpu_work.Append(Kernel(0, kStream, 10, 30));
  Rows(0).gpu_work.Append(Kernel(0, kNcclStream, 20, 40));
  Rows(0).gpu_work.Append(Kernel(0, kStream, 30, 60));
  RunIndex index;
  ASSERT_TRUE(index.Advance(snapshot_));
  const TrackIndex& tracks = index.Find(0)->tracks;
  ASSERT_EQ(tracks.streams().size(), 2U);
  EXPECT_EQ(tracks.streams()[0].name, "stream 7");
  EXPECT_EQ(tracks.streams()[0].num_spans, 2U);
  EXPECT_EQ(tracks.streams()[1].name, "stream 13");
  ASSERT_EQ(tracks.threads().size(), 1U);
  const TrackLane& thread = tracks.threads()[0];
  ASSERT_EQ(thread.levels.size(), 3U);
  EXPECT_EQ(thread.levels[0].size(), 3U);
  EXPECT_EQ(thread.levels[1].size(), 2U);
  EXPECT_EQ(thread.levels[2].size(), 1U);
  // Nothing overlaps within a lane.
  for (const SpanColumn& level : thread.levels) {
    for (size_t at = 1; at < level.size(); ++at) {
      EXPECT_LE(level[at - 1].end_ns, level[at].start_ns);
    }
  }
  const std::vector<RankLanes> lanes = LanesOfRanks(index);
  EXPECT_FALSE(lanes[0].ops);
  const Layout layout = MakeLayout(lanes, {}, 1);
  ASSERT_EQ(layout.ranks[0].num_lanes, 5U);
  EXPECT_EQ(layout.lanes[0].source.kind, LaneKind::kThread);
  EXPECT_EQ(layout.lanes[0].source.level, 2);  // the outermost range is on top
  EXPECT_EQ(layout.lanes[4].source.kind, LaneKind::kStream);
  EXPECT_EQ(layout.lanes[4].source.track, &tracks.streams()[1]);
  EXPECT_TRUE(lanes[1].ops);  // nothing came of this rank: as ever
}

// Beyond whatever room a view has behind the run.
TEST_F(TrackIndexTest, RangesWhoseEndWasNotSeenGoOnBehindTheRun) {
  AddRange(0, 800);
  query::Span open;
  open.id = query::SpanId(next_id_++);
  open.track = TrackOf(0, kThreadTrack);
  open.start_ns = open.end_ns = 300 * kUs;
  open.name = Name("nccl:all_gather (not ended)");
  open.category = query::SpanCategory::kCommunication;
  Rows(0).spans.Append(open);
  AddRange(400, 500);
  snapshot_.end_ns = 800 * kUs;
  RunIndex index;
  ASSERT_TRUE(index.Advance(snapshot_));
  const std::vector<SpanColumn>& levels = index.Find(0)->tracks.threads()[0].levels;
  ASSERT_EQ(levels.size(), 3U);  // over both that it overlaps with
  ASSERT_EQ(levels[2].size(), 1U);
  EXPECT_EQ(levels[2][0].start_ns, 300 * kUs);
  EXPECT_EQ(levels[2][0].end_ns, 900 * kUs);
  EXPECT_EQ(levels[2][0].op_class, query::OpClass::kAllGather);
}

TEST_F(TrackIndexTest, ThreadsStandByPositionWhicheverMarkedSomethingFirst) {
  snapshot_.tracks.push_back({query::TrackId(900), 0, "thread 2", query::TrackRole::kHost, 8});
  snapshot_.tracks.push_back({query::TrackId(901), 0, "thread 1", query::TrackRole::kHost, 7});
  for (const int64_t track : {900, 901}) {
    Rows(0).spans.Append({query::SpanId(track), query::TrackId(track), 10 * track, 10 * track + 5});
  }
  RunIndex index;
  ASSERT_TRUE(index.Advance(snapshot_));
  const TrackIndex& tracks = index.Find(0)->tracks;
  ASSERT_EQ(tracks.threads().size(), 2U);
  EXPECT_EQ(tracks.threads()[0].track, query::TrackId(900));
  EXPECT_EQ(tracks.ThreadsInOrder(), (std::vector<uint16_t>{1, 0}));
  const Layout layout = MakeLayout(LanesOfRanks(index), {}, 1);
  EXPECT_EQ(layout.lanes[0].source.track, &tracks.threads()[1]);
  EXPECT_EQ(layout.lanes[1].source.track, &tracks.threads()[0]);
}

TEST_F(TrackIndexTest, RowsTakenInPiecesGiveTheSame) {
  for (int64_t i = 0; i < 50; ++i) {
    AddRange(100 * i + 10, 100 * i + 20);
    AddRange(100 * i, 100 * i + 90);
    Rows(0).gpu_work.Append(Kernel(0, kStream, 100 * i, 100 * i + 50));
  }
  RunIndex whole;
  ASSERT_TRUE(whole.Advance(snapshot_));
  RunIndex pieces;
  int calls = 1;
  while (!pieces.Advance(snapshot_, 7)) ++calls;
  EXPECT_EQ(calls, (150 + 6) / 7);
  const TrackIndex& a = whole.Find(0)->tracks;
  const TrackIndex& b = pieces.Find(0)->tracks;
  ASSERT_EQ(b.threads()[0].levels.size(), 2U);
  EXPECT_EQ(a.threads()[0].levels[1].size(), b.threads()[0].levels[1].size());
  EXPECT_EQ(a.streams()[0].num_spans, b.streams()[0].num_spans);
}

TEST_F(TrackIndexTest, KernelOfACollectiveWaitsForTheLastRank) {
  const int32_t name = Name("ncclDevKernel_AllGather_RING_LL(ncclDevComm*)");
  const int64_t starts[2] = {100, 140};
  for (int32_t rank = 0; rank < 2; ++rank) {
    query::GpuWork work = Kernel(rank, kNcclStream, starts[rank], 200);
    work.name = name;
    work.category = query::SpanCategory::kCommunication;
    Rows(static_cast<size_t>(rank)).gpu_work.Append(work);
    query::NcclOperation operation;
    operation.sequence = 3;
    operation.function = Name("AllGather");
    operation.launch_track = work.launch_track;
    operation.launch_start_ns = work.launch_start_ns - kUs;
    operation.launch_end_ns = work.launch_start_ns + 8 * kUs;
    Rows(static_cast<size_t>(rank)).nccl.Append(operation);
  }
  RunIndex index;
  ASSERT_TRUE(index.Advance(snapshot_));
  const WorkFacts early = FactsOfWork(snapshot_, index, 0, 0);
  EXPECT_EQ(early.short_name, "ncclDevKernel_AllGather_RING_LL");
  ASSERT_TRUE(early.has_arrival);
  EXPECT_EQ(early.wait_ns, 40 * kUs);
  EXPECT_EQ(early.transfer_ns, 60 * kUs);
  EXPECT_EQ(early.last_rank, 1);
  EXPECT_EQ(early.nccl, "AllGather #3");
  const WorkFacts late = FactsOfWork(snapshot_, index, 1, 0);
  EXPECT_EQ(late.wait_ns, 0);
  EXPECT_EQ(late.transfer_ns, 60 * kUs);
  // The same in the lane: two tones.
  const LaneSource stream = LanesOf(*index.Find(0)).lanes.front();
  ASSERT_EQ(stream.kind, LaneKind::kStream);
  const Axis axis({0, 300 * kUs}, 0, 300);
  const LaneDraw draw = Preprocess(index, Rows(0), stream, axis, false);
  ASSERT_EQ(draw.boxes.size(), 1U);
  EXPECT_FLOAT_EQ(draw.boxes[0].x0, 100);
  EXPECT_FLOAT_EQ(draw.boxes[0].wait_x1, 140);
  EXPECT_EQ(draw.boxes[0].op_class, query::OpClass::kAllGather);
}

TEST_F(TrackIndexTest, StreamsOfOneHardwareQueueAreTold) {
  Rows(0).gpu_work.Append(Kernel(0, kStream, 0, 10));
  Rows(0).gpu_work.Append(Kernel(0, kNcclStream, 10, 20));
  Rows(0).gpu_work.Append(Kernel(0, kNcclStream, 30, 40));
  query::GpuWork other = Kernel(1, kStream, 0, 10);
  other.channel = 5;
  Rows(1).gpu_work.Append(other);
  Rows(1).gpu_work.Append(Kernel(1, kNcclStream, 0, 10));
  RunIndex index;
  ASSERT_TRUE(index.Advance(snapshot_));
  const TrackIndex& shared = index.Find(0)->tracks;
  ASSERT_NE(shared.SharesChannel(snapshot_, shared.streams()[0]), nullptr);
  EXPECT_EQ(shared.SharesChannel(snapshot_, shared.streams()[0])->name, "stream 13");
  EXPECT_EQ(FactsOfWork(snapshot_, index, 0, 1).shares_channel_with, "stream 7");
  const TrackIndex& apart = index.Find(1)->tracks;
  EXPECT_EQ(apart.SharesChannel(snapshot_, apart.streams()[0]), nullptr);
  EXPECT_EQ(apart.SharesChannel(snapshot_, apart.streams()[1]), nullptr);
}

TEST_F(TrackIndexTest, ManyKernelsAreFoldedAndDrawnAsDensity) {
  for (int64_t i = 0; i < 20'000; ++i) {
    Rows(0).gpu_work.Append(Kernel(0, kStream, 10 * i, 10 * i + 8));
  }
  RunIndex index;
  ASSERT_TRUE(index.Advance(snapshot_));
  const LaneSource stream = LanesOf(*index.Find(0)).lanes.front();
  ASSERT_EQ(stream.kind, LaneKind::kStream);
  const auto boxes = [&](int64_t length_us) {
    return Preprocess(index, Rows(0), stream, {{0, length_us * kUs}, 0, 100}, false);
  };
  EXPECT_EQ(boxes(100).boxes.size(), 10U);  // 8 pixels each
  const LaneDraw folded = boxes(3000);
  EXPECT_FALSE(folded.dense);
  EXPECT_LT(folded.boxes.size(), 100U);
  const LaneDraw coarse = boxes(200'000);
  EXPECT_TRUE(coarse.dense);
  EXPECT_TRUE(coarse.boxes.empty());
  EXPECT_LE(coarse.runs.size(), 100U);
  ASSERT_FALSE(coarse.runs.empty());
  EXPECT_EQ(coarse.runs[0].op_class, query::OpClass::kForward);
}

TEST(ClassOfTest, OfACollectiveIsWhatStandsBeforeItsAlgorithm) {
  const auto class_of = [](std::string_view name) {
    return ClassOf(query::SpanCategory::kCommunication, name);
  };
  EXPECT_EQ(class_of("ncclDevKernel_AllGather_RING_LL(x)"), query::OpClass::kAllGather);
  EXPECT_EQ(class_of("ncclDevKernel_Broadcast_AllGather"), query::OpClass::kBroadcast);
  EXPECT_EQ(class_of("ncclDevKernel_Reduce_Sum_bf16_RING_LL"), query::OpClass::kReduce);
  EXPECT_EQ(class_of("ncclDevKernel_SendRecv(x)"), query::OpClass::kSendReceive);
  EXPECT_EQ(class_of("reduce_scatter"), query::OpClass::kReduceScatter);
  EXPECT_EQ(class_of("ncclDevKernel_Generic"), query::OpClass::kAllReduce);
}

TEST(ShortKernelNameTest, LeavesWhatTellsKernelsApart) {
  EXPECT_EQ(ShortKernelName("void at::native::vectorized_elementwise_kernel<4, at::native::Add<"
                            "float>, std::array<char*, 3> >(int, float)"),
            "vectorized_elementwise_kernel");
  EXPECT_EQ(ShortKernelName("ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long)"),
            "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(ShortKernelName("sm90_xmma_gemm_bf16"), "sm90_xmma_gemm_bf16");
  EXPECT_EQ(ShortKernelName("void (anonymous namespace)::softmax<float>(float*)"), "softmax");
  EXPECT_EQ(ShortKernelName("copy on device"), "copy on device");
  EXPECT_EQ(ShortKernelName(""), "");
}

}  // namespace
}  // namespace shardscope::timeline
