// For tests: the trace of a program that nobody changed, recorded on two GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ui/gpu_test_util.h"
#include "trace/base/check.h"
#include "trace/query/trace_test_util.h"

namespace shardscope::ui_test {

// Two processes of one program: nested ranges, a compute and a communication stream that share a
// hardware queue, NCCL's own rows; rank 1 is late. Reserved memory, and what the driver handed out.
class RecordedProgram {
 public:
  RecordedProgram() {
    auto recorder = query::OpenRecorder(folder_.path());
    recorder->Add(schema::MetaRow{"recorded", "process"});
    for (int64_t rank = 0; rank < 2; ++rank) AddRank(rank, recorder.get());
    SHARDSCOPE_CHECK(recorder->Finish().ok());
    snapshot_ = Read(folder_.path());
  }
  const query::SnapshotPtr& snapshot() const { return snapshot_; }
  schema::TrackId thread(size_t rank) const { return threads_[rank]; }
  schema::TrackId nccl_stream(size_t rank) const { return nccl_streams_[rank]; }

 private:
  static schema::TrackId Track(record::Recorder* recorder, int64_t rank, const std::string& name,
                               const std::string& role, int64_t position) {
    schema::TrackRow row;
    row.rank = rank;
    row.name = name;
    row.role = role;
    row.position = position;
    return recorder->Add(row);
  }
  static schema::SpanRow Span(record::Recorder* recorder, schema::TrackId track,
                              const std::string& name, const char* category, int64_t start_ns,
                              int64_t end_ns) {
    schema::SpanRow row;
    row.track = track;
    row.start_ns = start_ns;
    row.duration_ns = end_ns - start_ns;
    row.name_string = recorder->AddString(name);
    row.category = category;
    row.op_run = schema::OpRunId::None();
    return row;
  }
  static void AddStream(record::Recorder* recorder, schema::TrackId track, int64_t stream) {
    schema::GpuStreamRow row;
    row.track = track;
    row.op_track = schema::TrackId::None();
    row.context = 1;
    row.stream = stream;
    recorder->Add(row);
  }
  void AddRank(int64_t rank, record::Recorder* recorder) {
    schema::RankRow row;
    row.rank = rank;
    recorder->Add(row);
    const schema::TrackId thread = Track(recorder, rank, "thread 4711", "host", 0);
    const schema::TrackId compute = Track(recorder, rank, "GPU 0 context 1 stream 7", "compute", 1);
    const schema::TrackId nccl = Track(recorder, rank, "GPU 0 context 1 stream 13", "compute", 2);
    const schema::TrackId communicator = Track(recorder, rank, "NCCL abc", "host", 3);
    threads_.push_back(thread);
    nccl_streams_.push_back(nccl);
    AddStream(recorder, compute, 7);
    AddStream(recorder, nccl, 13);
    for (int64_t step = 0; step < 5; ++step) {
      const int64_t start_ns = (1000 + 40 * step) * kMs;
      const auto range = [&](const char* name, int64_t from_ms, int64_t to_ms) {
        recorder->Record(
            Span(recorder, thread, name, "host", start_ns + from_ms * kMs, start_ns + to_ms * kMs));
      };
      range("FSDP::all_gather", 1, 3);
      range("forward", 0, 18);
      range("backward", 19, 36);
      range("train_step", 0, 38);
      AddKernel(recorder, thread, compute,
                Span(recorder, compute, "void at::native::gemm<float>(float*)", "compute",
                     start_ns + 5 * kMs, start_ns + 17 * kMs));
      AddGather(recorder, thread, nccl, communicator, start_ns + (6 + 4 * rank) * kMs,
                start_ns + 16 * kMs, step);
    }
    AddMemory(recorder, rank, thread);
  }
  static void AddKernel(record::Recorder* recorder, schema::TrackId thread, schema::TrackId,
                        schema::SpanRow span) {
    record::GpuWorkRecord record;
    record.span = span;
    record.work.kind = "kernel";
    record.work.times = "measured";
    record.work.plan_op = schema::PlanOpId::None();
    record.work.step = -1;
    record.work.launch_track = thread;
    record.work.launch_start_ns = span.start_ns - 2 * kMs;
    record.work.launch_duration_ns = 10'000;
    record.work.grid_x = 132;
    record.work.block_x = 256;
    record.work.grid_y = record.work.grid_z = record.work.block_y = record.work.block_z = 1;
    record.work.registers = 64;
    record.work.channel = 9;
    record.work.channel_kind = "compute";
    recorder->Record(record);
  }
  static void AddGather(record::Recorder* recorder, schema::TrackId thread, schema::TrackId stream,
                        schema::TrackId communicator, int64_t start_ns, int64_t end_ns,
                        int64_t sequence) {
    AddKernel(recorder, thread, stream,
              Span(recorder, stream, "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)",
                   "communication", start_ns, end_ns));
    record::NcclRecord record;
    record.span = Span(recorder, communicator, "AllGather", "communication", start_ns - 3 * kMs,
                       start_ns - 2 * kMs + 50'000);
    record.operation.communicator = "abc";
    record.operation.group_size = 2;
    record.operation.function = "AllGather";
    record.operation.sequence = sequence;
    record.operation.launch_track = thread;
    record.operation.launch_start_ns = start_ns - 3 * kMs;
    record.operation.launch_duration_ns = kMs + 50'000;
    recorder->Record(record);
  }
  static void AddMemory(record::Recorder* recorder, int64_t rank, schema::TrackId thread) {
    schema::MemoryEventRow event;
    event.rank = rank;
    event.device = "GPU 0";
    event.category = "other";
    event.plan_op = schema::PlanOpId::None();
    event.step = -1;
    event.bytes = 300'000'000;
    event.issued_ns = event.executed_ns = 1000 * kMs;
    recorder->Record(event);
    event.bytes = -100'000'000;  // asked for 20 ms before the last kernel has used it
    event.issued_ns = 1100 * kMs;
    event.executed_ns = 1120 * kMs;
    recorder->Record(event);
    schema::CounterRow counter;
    counter.track = thread;
    counter.time_ns = 1000 * kMs;
    counter.name_string = recorder->AddString("reserved_bytes");
    counter.value = 400e6;
    recorder->Record(counter);
    schema::MemorySegmentRow segment;
    segment.rank = rank;
    segment.time_ns = 1000 * kMs;
    segment.address = 1 << 20;
    segment.bytes = 500'000'000;
    segment.kind = "device";
    recorder->Record(segment);
    // NCCL's own, taken while a thread was in a range of NCCL's.
    const schema::TrackId other_thread = Track(recorder, rank, "thread 4712", "host", 4);
    recorder->Record(
        Span(recorder, other_thread, "NCCL: ncclCommInitRank", "host", 1002 * kMs, 1006 * kMs));
    segment.time_ns = 1004 * kMs;
    segment.address = 2 << 20;
    segment.bytes = 100'000'000;
    recorder->Record(segment);
    counter.name_string = recorder->AddString("device_used_bytes");
    counter.value = 900e6;
    recorder->Record(counter);
  }

  query::TestFolder folder_;
  std::vector<schema::TrackId> threads_;
  std::vector<schema::TrackId> nccl_streams_;
  query::SnapshotPtr snapshot_;
};

}  // namespace shardscope::ui_test
