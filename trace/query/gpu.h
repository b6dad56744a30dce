// What the GPU did and what programs marked, as rows of a Snapshot: kernels, copies, NVTX ranges,
// what NCCL put on streams, memory of the driver.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "trace/base/words.h"
#include "trace/schema/ids.h"

namespace shardscope::query {

using schema::PlanOpId;
using schema::SpanId;
using schema::StringId;
using schema::TrackId;
using words::ChannelKind;
using words::GpuTimes;
using words::GpuWorkKind;
using words::SpanCategory;

// An interval that is no op and no work of the GPU: an NVTX range, a wait of the host.
struct Span {
  SpanId id;
  TrackId track;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int32_t name = 0;  // index into Snapshot::names
  SpanCategory category = SpanCategory::kHost;
};

// A kernel, copy or memset on the track of its stream.
struct GpuWork {
  SpanId id;  // of its span
  TrackId track;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  PlanOpId plan_op = PlanOpId::None();  // that launched it; -1: no op
  TrackId launch_track = TrackId::None();
  int64_t launch_start_ns = 0;
  int64_t launch_duration_ns = 0;
  int64_t correlation = 0;
  int64_t bytes = 0;
  int32_t name = 0;   // index into Snapshot::names
  int32_t step = -1;  // of the op that launched it
  SpanCategory category = SpanCategory::kCompute;
  GpuWorkKind kind = GpuWorkKind::kKernel;
  GpuTimes times = GpuTimes::kMeasured;
  ChannelKind channel_kind = ChannelKind::kUnknown;
  int32_t channel = 0;  // hardware queue
  std::array<int32_t, 3> grid{};
  std::array<int32_t, 3> block{};
  std::array<int32_t, 3> cluster{};
  int32_t registers = 0;
  int32_t static_shared_bytes = 0;
  int32_t dynamic_shared_bytes = 0;
  int64_t graph = 0;  // 0: launched by no graph
};

struct GpuStream {
  int32_t rank = 0;
  TrackId track;
  TrackId op_track = TrackId::None();
  int64_t process = 0;  // equal for the streams of one process
  int64_t device = 0;
  int64_t context = 0;
  int64_t stream = 0;
};

// A stream waited for an event of another one. Work is identified by its track and
// GpuWork::correlation.
struct EventEdge {
  TrackId from_track = TrackId::None();      // of the stream that recorded the event
  TrackId to_track = TrackId::None();        // of the stream that waited
  int64_t from_correlation = -1;             // of the last work before the recording; -1: none
  int64_t to_correlation = -1;               // of the first work after the wait; -1: none
  int64_t recorded_ns = 0;                   // waited_ns if it is not known
  int64_t waited_ns = 0;                     // of the host's call
  PlanOpId from_plan_op = PlanOpId::None();  // of those works; -1: no op
  PlanOpId to_plan_op = PlanOpId::None();
  int32_t from_step = -1;
  int32_t step = -1;  // of the work that waited
};

// What NCCL put on a stream; the kernels of `launch_track` launched in this time are its own.
struct NcclOperation {
  SpanId id;                 // of its span
  int32_t communicator = 0;  // index into Snapshot::communicators
  int32_t group_size = 0;
  int64_t sequence = -1;
  int32_t function = 0;  // indices into Snapshot::names, as the two below
  int32_t algorithm = 0;
  int32_t protocol = 0;
  int32_t channels = 0;
  int64_t bytes = 0;
  TrackId launch_track = TrackId::None();
  int64_t launch_start_ns = 0;
  int64_t launch_end_ns = 0;
};

// Memory that the driver handed out (positive) or took back.
struct MemorySegment {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  int32_t device = 0;
  int64_t address = 0;
};

// For a second or so: what has to be added to the times of a GPU lies between the two.
struct GpuClock {
  int32_t rank = 0;
  int64_t device = 0;
  std::string method;  // "cupti"
  int64_t time_ns = 0;
  int64_t low_ns = 0;
  int64_t high_ns = 0;
};

struct MemoryCounter {
  int64_t time_ns = 0;
  int64_t bytes = 0;
};

}  // namespace shardscope::query
