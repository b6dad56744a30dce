// What a Snapshot's rows are: a struct a table, with the words of the trace as enums. Those of the
// GPU stand in trace/query/gpu.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/words.h"
#include "trace/query/packed_rows.h"
#include "trace/schema/ids.h"
#include "trace/store/merge/clock_facts.h"

namespace shardscope::query {

using schema::OpRunId;
using schema::PlanOpId;
using schema::ScheduleId;
using schema::TrackId;
using words::BlockingKind;
using words::CapabilityStatus;
using words::Category;
using words::ClockMethod;
using words::kNumMemoryCategories;
using words::MarkerKind;
using words::MemoryCategory;
using words::OpClass;
using words::PauseCause;
using words::TraceState;
using words::TrackRole;
using words::Truth;

// Rows may still come: what was recorded last may not have been read yet.
inline bool MayGrow(TraceState state) {
  return state == TraceState::kLive || state == TraceState::kFinishing;
}

// The optimizer's, too.
inline bool IsCompute(Category category) {
  return TraitsOf(category).share == words::OpShare::kCompute;
}
inline bool IsCompute(words::SpanCategory category) {
  return TraitsOf(category).share == words::OpShare::kCompute;
}
inline bool IsCompute(OpClass op_class) { return IsCompute(TraitsOf(op_class).category); }
inline bool IsCommunication(OpClass op_class) {
  return TraitsOf(op_class).category == Category::kCommunication;
}

struct Track {
  TrackId id;
  int32_t rank = 0;
  std::string name;
  TrackRole role = TrackRole::kHost;
  int32_t position = 0;
};

struct PlanOp {
  PlanOpId id;
  ScheduleId schedule;
  int32_t program = 0;
  int32_t op = 0;  // index in host order
  std::string name;
  std::string kind;
  OpClass op_class = OpClass::kHost;
  Category category = Category::kHost;
  std::string phase;
  int32_t micro_batch = -1;
  std::string unit;
  std::string segment;
  std::string stream;
  std::string communicator;
  std::string dtype;
  int64_t payload_bytes = 0;
  int64_t wire_bytes = 0;
  std::vector<PlanOpId> predecessors;       // plan_op ids of explicit dependencies
  std::vector<PlanOpId> host_predecessors;  // those of them that the host waits for, no stream
  std::vector<PlanOpId> successors;         // the reverse
};

struct SchedulePeak {
  int64_t predicted_bytes = 0;  // in issue order
  int64_t bound_bytes = 0;      // of the executed peak; 0: not known (older traces)
};

struct Schedule {
  ScheduleId id;
  std::string name;
  std::string text;
  SchedulePeak largest;                     // of the rank that needs most
  std::map<int32_t, SchedulePeak> by_rank;  // empty in older traces

  const SchedulePeak& PeakOf(int32_t rank) const {
    const auto found = by_rank.find(rank);
    return found == by_rank.end() ? largest : found->second;
  }
};

// Runs have millions of op runs, collectives and memory events: what they hold is in such an order
// and width that little of it is padding, what is only asked for by SQL is left out, and lists of
// them are packed (Packing, by which a new field has to go as well).
struct OpRun {
  OpRunId id;
  PlanOpId plan_op;  // key into Snapshot::plan_ops
  int32_t rank : 24 = 0;
  BlockingKind blocking_kind = BlockingKind::kNone;
  int32_t step = 0;
  TrackId track;
  int64_t issued_ns = 0;
  int64_t ready_ns = 0;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  int64_t slot_wait_ns = 0;
  int64_t cpu_ns = 0;
  PlanOpId blocking_plan_op = PlanOpId::None();
};
static_assert(sizeof(OpRun) == 88);

template <>
struct Packing<OpRun> {
  static constexpr size_t kColumns = 13;
  static std::array<int64_t, kColumns> Split(const OpRun& row) {
    return {row.id.value(),
            row.plan_op.value(),
            row.rank,
            static_cast<int64_t>(row.blocking_kind),
            row.step,
            row.track.value(),
            row.issued_ns,
            Difference(row.ready_ns, row.issued_ns),
            Difference(row.started_ns, row.issued_ns),
            Difference(row.ended_ns, row.started_ns),
            row.slot_wait_ns,
            row.cpu_ns,
            row.blocking_plan_op.value()};
  }
  template <typename Value>
  [[gnu::always_inline]] static inline OpRun Join(const Value& value) {
    const int64_t issued_ns = value(6);
    const int64_t started_ns = Sum(issued_ns, value(8));
    return {.id = OpRunId(value(0)),
            .plan_op = PlanOpId(value(1)),
            .rank = static_cast<int32_t>(value(2)),
            .blocking_kind = static_cast<BlockingKind>(value(3)),
            .step = static_cast<int32_t>(value(4)),
            .track = TrackId(value(5)),
            .issued_ns = issued_ns,
            .ready_ns = Sum(issued_ns, value(7)),
            .started_ns = started_ns,
            .ended_ns = Sum(started_ns, value(9)),
            .slot_wait_ns = value(10),
            .cpu_ns = value(11),
            .blocking_plan_op = PlanOpId(value(12))};
  }
};

struct Step {
  int32_t rank = 0;
  int32_t step = 0;
  ScheduleId schedule;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t tokens = 0;
  double loss = 0;
  double grad_norm = 0;
};

// Time between two steps of a rank, in neither of them.
struct Pause {
  int32_t step = 0;  // before which it was
  PauseCause cause = PauseCause::kUser;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// A rank's part of a checkpoint.
struct CheckpointPart {
  int32_t step = 0;       // before which it was taken
  int64_t start_ns = 0;   // the rank came to it
  int64_t copy_ns = 0;    // the copy began, and
  int64_t copied_ns = 0;  // was made
  int64_t written_ns = 0;
  int64_t bytes = 0;
  std::string error;  // why there is no file; else empty
};

// The loss over held-out data, between two steps of a rank: inside of a Pause.
struct Evaluation {
  int32_t step = 0;  // before which it was
  ScheduleId schedule;
  int32_t first_batch = 0;  // OpRun::step of its first batch; each that follows has one less
  int32_t batches = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t tokens = 0;  // of all ranks
  double loss = 0;     // mean over these

  // Which of its batches has this OpRun::step; -1: none.
  int32_t BatchOf(int32_t op_step) const {
    const int32_t batch = first_batch - op_step;
    return batch >= 0 && batch < batches ? batch : -1;
  }
};

struct Collective {
  OpRunId op_run;
  int32_t rank = 0;
  int32_t step = 0;
  int32_t communicator = 0;  // index into Snapshot::communicators
  int32_t group_size = 0;
  int64_t sequence = 0;
  int64_t payload_bytes = 0;
  int64_t wire_bytes = 0;
  OpClass kind = OpClass::kAllGather;
  Truth truth = Truth::kMeasured;
};
static_assert(sizeof(Collective) == 56);

template <>
struct Packing<Collective> {
  static constexpr size_t kColumns = 10;
  static std::array<int64_t, kColumns> Split(const Collective& row) {
    return {row.op_run.value(),
            row.rank,
            row.step,
            row.communicator,
            row.group_size,
            row.sequence,
            row.payload_bytes,
            row.wire_bytes,
            static_cast<int64_t>(row.kind),
            static_cast<int64_t>(row.truth)};
  }
  template <typename Value>
  [[gnu::always_inline]] static inline Collective Join(const Value& value) {
    return {.op_run = OpRunId(value(0)),
            .rank = static_cast<int32_t>(value(1)),
            .step = static_cast<int32_t>(value(2)),
            .communicator = static_cast<int32_t>(value(3)),
            .group_size = static_cast<int32_t>(value(4)),
            .sequence = value(5),
            .payload_bytes = value(6),
            .wire_bytes = value(7),
            .kind = static_cast<OpClass>(value(8)),
            .truth = static_cast<Truth>(value(9))};
  }
};

struct MemoryEvent {  // of the rank whose row it is; there are more of them than of anything else
  int64_t issued_ns = 0;
  int64_t executed_ns = 0;
  int64_t bytes : 42 = 0;       // signed
  bool is_of_step : 1 = false;  // false: of no op, such as what is there from the start on
  uint64_t unit : 13 = 0;       // or segment: index into Snapshot::memory_units; 0: of none
  MemoryCategory category = MemoryCategory::kOther;
};
static_assert(sizeof(MemoryEvent) == 24);

template <>
struct Packing<MemoryEvent> {
  static constexpr size_t kColumns = 6;
  static std::array<int64_t, kColumns> Split(const MemoryEvent& row) {
    return {row.issued_ns,
            Difference(row.executed_ns, row.issued_ns),
            row.bytes,
            row.is_of_step,
            static_cast<int64_t>(row.unit),
            static_cast<int64_t>(row.category)};
  }
  template <typename Value>
  [[gnu::always_inline]] static inline MemoryEvent Join(const Value& value) {
    const int64_t issued_ns = value(0);
    return {.issued_ns = issued_ns,
            .executed_ns = Sum(issued_ns, value(1)),
            .bytes = value(2),
            .is_of_step = value(3) != 0,
            .unit = static_cast<uint64_t>(value(4)),
            .category = static_cast<MemoryCategory>(value(5))};
  }
};
inline constexpr size_t kMostMemoryUnits = size_t{1} << 13;  // with that of none

struct Marker {
  int64_t time_ns = 0;
  int32_t step = 0;
  std::string kind;  // of MarkerKind, or what a newer version writes
  std::string key;
  std::string old_value;
  std::string new_value;
};

// One rank's time of a step by which the run measured what recording costs. Its rounds compare a
// step that was not recorded with those beside it.
struct OverheadStep {
  int32_t round = 0;
  int32_t rank = 0;
  int32_t step = 0;
  bool is_recorded = false;
  int64_t duration_ns = 0;
};

struct Capability {
  std::string source;
  std::string status;  // of CapabilityStatus, or what a newer version writes
  std::string reason;
  int64_t dropped = 0;
  int64_t process = 0;  // whose row it is: key into Snapshot::processes
};

// Whose rows one file of the run has.
struct Process {
  std::string name;            // "host-pid"; empty in a run of one file
  std::vector<int32_t> ranks;  // that it has tracks of; ascending
};

// Of a process, or of several that share one: how it was placed on the common clock of the run.
using Clock = store::ClockFacts;

// The words of text columns as enums, and back (trace/base/words.h).
using words::Name;
using words::ParseBlockingKind;
using words::ParseCategory;
using words::ParseChannelKind;
using words::ParseGpuTimes;
using words::ParseGpuWorkKind;
using words::ParseMarkerKind;
using words::ParseMemoryCategory;
using words::ParsePauseCause;
using words::ParseSpanCategory;
using words::ParseTrackRole;
using words::ParseTruth;

// What an op of this kind is drawn as; a kind that is not known here, by its category.
OpClass OpClassOf(std::string_view kind, Category category);

// Whether a marker (query::Marker, or its row in the file) is of a knob that was turned; not that
// the run found a value for `auto`, nor that it was set to what it was.
template <typename AnyMarker>
bool IsKnobChange(const AnyMarker& marker) {
  return marker.kind == Name(MarkerKind::kChange) && !marker.key.empty() &&
         marker.old_value != marker.new_value && !marker.old_value.starts_with("auto:");
}

// "prefetch.forward 1 -> 2", of a marker with a key.
std::string ChangeText(const Marker& marker);

}  // namespace shardscope::query
