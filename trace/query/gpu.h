// What the GPU did and what programs marked, as rows of a Snapshot: kernels, copies, NVTX ranges,
// what NCCL put on streams, memory of the driver.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "trace/base/words.h"
#include "trace/query/packed_rows.h"
#include "trace/schema/ids.h"

namespace shardscope::query {

using schema::PlanOpId;
using schema::SpanId;
using schema::StringId;
using schema::TrackId;
using words::ChannelKind;
using words::GpuClockMethod;
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

template <>
struct Packing<Span> {
  static constexpr size_t kColumns = 6;
  static std::array<int64_t, kColumns> Split(const Span& row) {
    return {row.id.value(), row.track.value(),
            row.start_ns,   Difference(row.end_ns, row.start_ns),
            row.name,       static_cast<int64_t>(row.category)};
  }
  template <typename Value>
  [[gnu::always_inline]] static inline Span Join(const Value& value) {
    const int64_t start_ns = value(2);
    return {.id = SpanId(value(0)),
            .track = TrackId(value(1)),
            .start_ns = start_ns,
            .end_ns = Sum(start_ns, value(3)),
            .name = static_cast<int32_t>(value(4)),
            .category = static_cast<SpanCategory>(value(5))};
  }
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

template <>
struct Packing<GpuWork> {
  static constexpr size_t kColumns = 30;
  static std::array<int64_t, kColumns> Split(const GpuWork& row) {
    return {row.id.value(),
            row.track.value(),
            row.start_ns,
            Difference(row.end_ns, row.start_ns),
            row.plan_op.value(),
            row.launch_track.value(),
            Difference(row.start_ns, row.launch_start_ns),
            row.launch_duration_ns,
            Difference(row.correlation, row.id.value()),
            row.bytes,
            row.name,
            row.step,
            static_cast<int64_t>(row.category),
            static_cast<int64_t>(row.kind),
            static_cast<int64_t>(row.times),
            static_cast<int64_t>(row.channel_kind),
            row.channel,
            row.grid[0],
            row.grid[1],
            row.grid[2],
            row.block[0],
            row.block[1],
            row.block[2],
            row.cluster[0],
            row.cluster[1],
            row.cluster[2],
            row.registers,
            row.static_shared_bytes,
            row.dynamic_shared_bytes,
            row.graph};
  }
  template <typename Value>
  static GpuWork Join(const Value& value) {
    const auto number = [&value](size_t column) { return static_cast<int32_t>(value(column)); };
    const int64_t id = value(0);
    const int64_t start_ns = value(2);
    return {.id = SpanId(id),
            .track = TrackId(value(1)),
            .start_ns = start_ns,
            .end_ns = Sum(start_ns, value(3)),
            .plan_op = PlanOpId(value(4)),
            .launch_track = TrackId(value(5)),
            .launch_start_ns = Difference(start_ns, value(6)),
            .launch_duration_ns = value(7),
            .correlation = Sum(id, value(8)),
            .bytes = value(9),
            .name = number(10),
            .step = number(11),
            .category = static_cast<SpanCategory>(value(12)),
            .kind = static_cast<GpuWorkKind>(value(13)),
            .times = static_cast<GpuTimes>(value(14)),
            .channel_kind = static_cast<ChannelKind>(value(15)),
            .channel = number(16),
            .grid = {number(17), number(18), number(19)},
            .block = {number(20), number(21), number(22)},
            .cluster = {number(23), number(24), number(25)},
            .registers = number(26),
            .static_shared_bytes = number(27),
            .dynamic_shared_bytes = number(28),
            .graph = value(29)};
  }
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
  std::string method;  // of GpuClockMethod, or what a newer version writes
  int64_t time_ns = 0;
  int64_t low_ns = 0;
  int64_t high_ns = 0;
};

struct MemoryCounter {
  int64_t time_ns = 0;
  int64_t bytes = 0;
};

}  // namespace shardscope::query
