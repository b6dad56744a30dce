// A kernel and its span are two rows: whichever comes first, one row of the Snapshot comes of them.
#include "trace/query/gpu_snapshot_builder.h"

#include <gtest/gtest.h>

#include "trace/query/snapshot_builder.h"

namespace shardscope::query {
namespace {

constexpr TrackId kThread(1);
constexpr TrackId kStream(2);

schema::SpanRow SpanRow(int64_t id, TrackId track, int64_t start_ns) {
  schema::SpanRow row;
  row.id = SpanId(id);
  row.track = track;
  row.start_ns = start_ns;
  row.duration_ns = 10;
  row.name_string = StringId(5);
  row.category = "compute";
  row.op_run = OpRunId::None();
  return row;
}

schema::GpuWorkRow WorkRow(int64_t id) {
  schema::GpuWorkRow row;
  row.id = SpanId(id);
  row.kind = "kernel";
  row.times = "measured";
  row.plan_op = PlanOpId::None();
  row.step = -1;
  row.launch_track = kThread;
  row.launch_start_ns = 90;
  row.channel_kind = "compute";
  row.grid_x = 7;
  return row;
}

store::RowBatch Tables() {
  store::RowBatch batch;
  for (const TrackId id : {kThread, kStream}) {
    schema::TrackRow track;
    track.id = id;
    track.role = "host";
    batch.Get<schema::TrackRow>().push_back(track);
  }
  schema::GpuStreamRow stream;
  stream.track = kStream;
  stream.op_track = TrackId::None();
  stream.stream = 7;
  batch.Get<schema::GpuStreamRow>().push_back(stream);
  schema::StringRow name;
  name.id = StringId(5);
  name.text = "gemm";
  batch.Get<schema::StringRow>().push_back(name);
  return batch;
}

int64_t Refused(const Snapshot& snapshot) {
  for (const Capability& row : snapshot.capabilities) {
    if (row.source == "reader") return row.dropped;
  }
  return 0;
}

TEST(GpuSnapshotBuilderTest, BothHalvesMakeOneRowInEitherOrder) {
  SnapshotBuilder builder("run", "run");
  builder.Add(Tables());
  store::RowBatch first;
  first.Get<schema::SpanRow>() = {SpanRow(1, kStream, 100), SpanRow(2, kThread, 50)};
  first.Get<schema::GpuWorkRow>() = {WorkRow(3)};
  builder.Add(first);
  store::RowBatch second;
  second.Get<schema::SpanRow>() = {SpanRow(3, kStream, 200)};
  second.Get<schema::GpuWorkRow>() = {WorkRow(1)};
  builder.Add(second);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  EXPECT_EQ(Refused(*snapshot), 0);
  const RankRows& rows = snapshot->ranks.at(0);
  ASSERT_EQ(rows.gpu_work.size(), 2u);
  EXPECT_EQ(rows.gpu_work[0].id, SpanId(3));
  EXPECT_EQ(rows.gpu_work[0].start_ns, 200);
  EXPECT_EQ(rows.gpu_work[1].id, SpanId(1));
  EXPECT_EQ(rows.gpu_work[1].end_ns, 110);
  EXPECT_EQ(rows.gpu_work[1].grid[0], 7);
  EXPECT_EQ(snapshot->names[static_cast<size_t>(rows.gpu_work[1].name)], "gemm");
  ASSERT_EQ(rows.spans.size(), 1u);  // that of the thread
  EXPECT_EQ(rows.spans[0].id, SpanId(2));
  ASSERT_EQ(snapshot->gpu_streams.size(), 1u);
  EXPECT_EQ(snapshot->gpu_streams[0].stream, 7);
  EXPECT_EQ(snapshot->start_ns, 50);
  EXPECT_EQ(snapshot->end_ns, 210);
}

TEST(GpuSnapshotBuilderTest, HalvesThatStayAloneAreSpansOrCountedAsLost) {
  SnapshotBuilder builder("run", "run");
  builder.Add(Tables());
  store::RowBatch batch;
  batch.Get<schema::SpanRow>() = {SpanRow(1, kStream, 100)};
  batch.Get<schema::GpuWorkRow>() = {WorkRow(9)};
  builder.Add(batch);
  EXPECT_EQ(builder.Publish(store::SourceState::kLive)->ranks.at(0).spans.size(), 0u);
  const SnapshotPtr end = builder.Publish(store::SourceState::kCut);
  ASSERT_EQ(end->ranks.at(0).spans.size(), 1u);
  EXPECT_EQ(end->ranks.at(0).spans[0].id, SpanId(1));
  EXPECT_TRUE(end->ranks.at(0).gpu_work.empty());
  EXPECT_EQ(Refused(*end), 1);
}

TEST(GpuSnapshotBuilderTest, RowsThatCannotBeAreCounted) {
  SnapshotBuilder builder("run", "run");
  builder.Add(Tables());
  store::RowBatch batch;
  schema::SpanRow elsewhere = SpanRow(1, TrackId(77), 100);
  schema::SpanRow endless = SpanRow(2, kThread, 100);
  endless.duration_ns = INT64_MAX;
  schema::SpanRow unknown = SpanRow(3, kThread, 100);
  unknown.category = "magic";
  batch.Get<schema::SpanRow>() = {elsewhere, endless, unknown, SpanRow(4, kStream, 100)};
  schema::GpuWorkRow strange = WorkRow(4);
  strange.kind = "magic";
  batch.Get<schema::GpuWorkRow>() = {strange};
  schema::MemorySegmentRow segment;
  segment.bytes = INT64_MAX;
  segment.kind = "device";
  batch.Get<schema::MemorySegmentRow>() = {segment};
  builder.Add(batch);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  EXPECT_EQ(Refused(*snapshot), 5);
  EXPECT_TRUE(snapshot->ranks.at(0).spans.empty());
  EXPECT_TRUE(snapshot->ranks.at(0).gpu_work.empty());
  EXPECT_TRUE(snapshot->ranks.at(0).segments.empty());
}

TEST(GpuSnapshotBuilderTest, CountersOfMemoryAreToldByTheirNames) {
  SnapshotBuilder builder("run", "run");
  builder.Add(Tables());
  store::RowBatch batch;
  batch.Get<schema::StringRow>() = {{StringId(900), "reserved_bytes"},
                                    {StringId(901), "device_used_bytes"},
                                    {StringId(902), "resident_bytes"}};
  const auto counter = [](int64_t name, double value) {
    schema::CounterRow row;
    row.track = kThread;
    row.time_ns = 50;
    row.name_string = StringId(name);
    row.value = value;
    return row;
  };
  batch.Get<schema::CounterRow>() = {counter(900, 10), counter(901, 20), counter(902, 30),
                                     counter(901, -1), counter(7777, 40)};
  builder.Add(batch);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  ASSERT_EQ(snapshot->ranks.at(0).reserved.size(), 1u);
  EXPECT_EQ(snapshot->ranks.at(0).reserved[0].bytes, 10);
  ASSERT_EQ(snapshot->ranks.at(0).device_used.size(), 1u);
  EXPECT_EQ(snapshot->ranks.at(0).device_used[0].bytes, 20);
  EXPECT_EQ(Refused(*snapshot), 1);
}

TEST(GpuSnapshotBuilderTest, WaitsBelongToTheRankOfTheStreamThatWaits) {
  SnapshotBuilder builder("run", "run");
  builder.Add(Tables());
  store::RowBatch batch;
  schema::EventEdgeRow edge;
  edge.from_track = edge.to_track = kStream;
  edge.from_correlation = 4;
  edge.to_correlation = 9;
  edge.recorded_ns = 70;
  edge.waited_ns = 60;
  edge.from_step = 2;
  edge.to_step = 3;
  schema::EventEdgeRow elsewhere = edge;
  elsewhere.from_track = TrackId(77);
  schema::EventEdgeRow endless = edge;
  endless.recorded_ns = -1;
  batch.Get<schema::EventEdgeRow>() = {edge, elsewhere, endless};
  builder.Add(batch);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  EXPECT_EQ(Refused(*snapshot), 2);
  ASSERT_EQ(snapshot->ranks.at(0).event_edges.size(), 1u);
  const EventEdge& row = snapshot->ranks.at(0).event_edges[0];
  EXPECT_EQ(row.from_correlation, 4);
  EXPECT_EQ(row.to_correlation, 9);
  EXPECT_EQ(row.recorded_ns, 70);
  EXPECT_EQ(row.waited_ns, 60);
  EXPECT_EQ(row.from_step, 2);
  EXPECT_EQ(row.step, 3);
}

TEST(GpuSnapshotBuilderTest, ANameThatIsNotInTheFileIsEmpty) {
  SnapshotBuilder builder("run", "run");
  builder.Add(Tables());
  store::RowBatch batch;
  schema::SpanRow nameless = SpanRow(1, kThread, 100);
  nameless.name_string = StringId(1234);
  batch.Get<schema::SpanRow>() = {nameless};
  schema::NcclOperationRow nccl;
  nccl.id = SpanId(8);
  nccl.communicator = "abc";
  nccl.function = "AllGather";
  nccl.launch_track = kThread;
  batch.Get<schema::NcclOperationRow>() = {nccl};
  builder.Add(batch);
  const SnapshotPtr snapshot = builder.Publish(store::SourceState::kFinished);
  const RankRows& rows = snapshot->ranks.at(0);
  EXPECT_EQ(snapshot->names[static_cast<size_t>(rows.spans[0].name)], "");
  ASSERT_EQ(rows.nccl.size(), 1u);
  EXPECT_EQ(snapshot->names[static_cast<size_t>(rows.nccl[0].function)], "AllGather");
  EXPECT_EQ(snapshot->communicators.at(static_cast<size_t>(rows.nccl[0].communicator)), "abc");
}

}  // namespace
}  // namespace shardscope::query
