#include "trace/import/history_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trace/base/sane_time.h"
#include "trace/base/words.h"
#include "trace/schema/rows.h"

namespace shardscope::imports {
namespace {

using schema::StringId;

// none for "": nothing is said.
StringId IdOfText(Names::Index name) {
  return name == 0 ? StringId::None() : StringId(int64_t{name} + 1);
}

}  // namespace

int64_t Moment(int64_t time_ns) { return std::clamp<int64_t>(time_ns, 0, kLatestSaneNs); }

Status WriteAllocator(const RunFacts& facts, Recording* recording, store::FinishedWriter* writer) {
  AllocatorHistory& history = recording->allocator;
  std::stable_sort(history.blocks.begin(), history.blocks.end(), [](const auto& a, const auto& b) {
    return a.free_completed_ns < b.free_completed_ns;
  });
  int64_t id = 0;
  for (const RecordedAllocation& block : history.blocks) {
    schema::AllocationRow row;
    row.id = schema::AllocationId(++id);
    row.rank = facts.rank;
    row.device = block.device;
    row.stream = block.stream;
    row.address = block.address;
    row.requested_bytes = block.requested_bytes;
    row.block_bytes = block.block_bytes;
    row.allocated_ns = Moment(block.allocated_ns);
    row.free_requested_ns = Moment(block.free_requested_ns);
    row.free_completed_ns = Moment(block.free_completed_ns);
    row.state = words::Name(block.state);
    row.track = schema::TrackId(int64_t{block.track} + 1);
    row.range_string = IdOfText(block.range);
    row.unit = schema::ShortText(recording->names[block.unit]);
    if (block.phase) row.phase = words::Name(*block.phase);
    row.category = words::kUnattributed;
    SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(row));
    SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(
        schema::AllocationStackRow{row.id, IdOfText(block.stack), IdOfText(block.context)}));
  }
  std::stable_sort(history.segments.begin(), history.segments.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  id = 0;
  for (const RecordedSegment& segment : history.segments) {
    schema::MemorySegmentRow row;
    row.id = schema::MemorySegmentId(++id);
    row.rank = facts.rank;
    row.device = segment.device;
    row.time_ns = Moment(segment.time_ns);
    row.address = segment.address;
    row.bytes = segment.bytes;
    row.kind = words::Name(words::MemorySegmentKind::kDevice);
    SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(row));
  }
  return Status::Ok();
}

Status WriteMarkers(const Recording& recording, const std::function<int64_t(int64_t)>& step_at,
                    store::FinishedWriter* writer) {
  int64_t id = 0;
  for (const RecordedMarker& marker : recording.markers) {
    schema::MarkerRow row;
    row.id = schema::MarkerId(++id);
    row.time_ns = Moment(marker.time_ns);
    row.step = step_at(marker.time_ns);
    row.kind = words::Name(marker.kind);
    row.new_value = marker.text;
    SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(row));
  }
  return Status::Ok();
}

Status WriteFlight(const RunFacts& facts, const Recording& recording,
                   store::FinishedWriter* writer) {
  int64_t id = 0;
  for (const RecordedFlightGroup& group : recording.flight.groups) {
    schema::FlightGroupRow row;
    row.id = schema::FlightGroupId(++id);
    row.rank = facts.rank;
    row.name = group.name;
    row.description = group.description;
    row.members = fmt::format("{}", fmt::join(group.members, ","));
    row.last_enqueued = group.last_enqueued;
    row.last_started = group.last_started;
    row.last_completed = group.last_completed;
    SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(row));
  }
  id = 0;
  for (const RecordedFlight& entry : recording.flight.entries) {
    schema::FlightEntryRow row;
    row.id = schema::FlightEntryId(++id);
    row.rank = facts.rank;
    row.group_name = entry.group;
    row.sequence = entry.sequence;
    row.is_p2p = entry.is_p2p ? 1 : 0;
    row.record = entry.record;
    row.operation = entry.operation;
    row.name = recording.names[entry.name];
    row.state = words::Name(entry.state);
    row.input = recording.names[entry.input];
    row.output = recording.names[entry.output];
    row.created_ns = Moment(entry.created_ns);
    row.started_after_ns = entry.started_after_ns;
    row.completed_after_ns = entry.completed_after_ns;
    row.timeout_ns = entry.timeout_ns;
    row.retired = entry.is_retired ? 1 : 0;
    row.stack_string = IdOfText(entry.stack);
    SHARDSCOPE_RETURN_IF_ERROR(writer->Insert(row));
  }
  return Status::Ok();
}

}  // namespace shardscope::imports
