#include "trace/query/gpu_snapshot_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "trace/base/trace_keys.h"
#include "trace/query/rows.h"
#include "trace/query/sane.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/source.h"

namespace shardscope::query {
namespace {

// Rows of a damaged file may never find their other half.
constexpr size_t kMostWaiting = size_t{1} << 24;

// Lengths may not make an end overflow.
bool SaneInterval(int64_t start_ns, int64_t duration_ns) {
  return SaneTime(start_ns) && SaneTime(duration_ns) && SaneTime(start_ns + duration_ns);
}

int32_t Clamped(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

int32_t ClampedStep(int64_t step) {
  return static_cast<int32_t>(std::clamp<int64_t>(step, -1, store::kMaxStep));
}

GpuWork WorkOf(const schema::GpuWorkRow& row, const Span& span) {
  GpuWork work;
  work.id = span.id;
  work.track = span.track;
  work.start_ns = span.start_ns;
  work.end_ns = span.end_ns;
  work.name = span.name;
  work.category = span.category;
  work.plan_op = row.plan_op;
  work.step = ClampedStep(row.step);
  work.launch_track = row.launch_track;
  work.launch_start_ns = row.launch_start_ns;
  work.launch_duration_ns = row.launch_duration_ns;
  work.correlation = row.correlation;
  work.bytes = row.bytes;
  work.channel = Clamped(row.channel);
  work.grid = {Clamped(row.grid_x), Clamped(row.grid_y), Clamped(row.grid_z)};
  work.block = {Clamped(row.block_x), Clamped(row.block_y), Clamped(row.block_z)};
  work.cluster = {Clamped(row.cluster_x), Clamped(row.cluster_y), Clamped(row.cluster_z)};
  work.registers = Clamped(row.registers);
  work.static_shared_bytes = Clamped(row.static_shared_bytes);
  work.dynamic_shared_bytes = Clamped(row.dynamic_shared_bytes);
  work.graph = row.graph;
  return work;
}

}  // namespace

GpuSnapshotBuilder::GpuSnapshotBuilder(SnapshotBuilder* owner)
    : owner_(*owner), snapshot_(owner->current_) {}

void GpuSnapshotBuilder::Add(const store::RowBatch& batch) {
  AddNames(batch);
  for (; known_tracks_ < snapshot_.tracks.size(); ++known_tracks_) {
    const Track& track = snapshot_.tracks[known_tracks_];
    rank_of_track_.emplace(track.id, track.rank);
  }
  AddStreams(batch);
  AddSpans(batch);
  AddWork(batch);
  AddNccl(batch);
  AddEdges(batch);
  AddSegments(batch);
  AddCounters(batch);
}

void GpuSnapshotBuilder::AddNames(const store::RowBatch& batch) {
  if (snapshot_.names.empty()) snapshot_.names.Append("");
  // Only traces with such rows need names.
  for (const schema::StringRow& row : batch.Get<schema::StringRow>()) {
    name_of_string_.emplace(row.id, NameOfText(row.text));
  }
}

int32_t GpuSnapshotBuilder::NameOfText(std::string_view text) {
  const auto known = name_of_text_.find(text);
  if (known != name_of_text_.end()) return known->second;
  const auto name = static_cast<int32_t>(snapshot_.names.size());
  snapshot_.names.Append(std::string(text));
  name_of_text_.emplace(text, name);
  return name;
}

int32_t GpuSnapshotBuilder::NameOf(StringId string) const {
  const auto found = name_of_string_.find(string);
  return found == name_of_string_.end() ? 0 : found->second;
}

int32_t GpuSnapshotBuilder::KnownName(std::string_view text) const {
  const auto found = name_of_text_.find(text);
  return found == name_of_text_.end() ? -1 : found->second;
}

RankRows* GpuSnapshotBuilder::RowsOfTrack(TrackId track) const {
  const auto found = rank_of_track_.find(track);
  return found == rank_of_track_.end() ? nullptr : owner_.RowsOfRank(found->second);
}

void GpuSnapshotBuilder::AddStreams(const store::RowBatch& batch) {
  for (const schema::GpuStreamRow& row : batch.Get<schema::GpuStreamRow>()) {
    const auto rank = rank_of_track_.find(row.track);
    if (rank == rank_of_track_.end()) {
      owner_.Refuse();
      continue;
    }
    if (!stream_tracks_.insert(row.track).second) continue;
    snapshot_.gpu_streams.push_back({.rank = rank->second,
                                     .track = row.track,
                                     .op_track = row.op_track,
                                     .process = row.track.value() / store::kIdsPerFile,
                                     .device = row.device,
                                     .context = row.context,
                                     .stream = row.stream});
  }
}

void GpuSnapshotBuilder::AddSpans(const store::RowBatch& batch) {
  for (const schema::SpanRow& row : batch.Get<schema::SpanRow>()) {
    RankRows* rows = RowsOfTrack(row.track);
    const std::optional<SpanCategory> category = ParseSpanCategory(row.category);
    if (rows == nullptr || !category || !SaneInterval(row.start_ns, row.duration_ns)) {
      owner_.Refuse();
      continue;
    }
    const Span span{
        row.id,   row.track, row.start_ns, row.start_ns + row.duration_ns, NameOf(row.name_string),
        *category};
    owner_.Extend(span.start_ns, span.end_ns);
    if (const auto work = waiting_work_.find(row.id); work != waiting_work_.end()) {
      Join(work->second, span);
      waiting_work_.erase(work);
    } else if (stream_tracks_.contains(row.track) && waiting_spans_.size() < kMostWaiting) {
      waiting_spans_.emplace(row.id, span);
    } else {
      rows->spans.Append(span);
    }
  }
}

void GpuSnapshotBuilder::AddWork(const store::RowBatch& batch) {
  for (const schema::GpuWorkRow& row : batch.Get<schema::GpuWorkRow>()) {
    const auto span = waiting_spans_.find(row.id);
    if (span != waiting_spans_.end()) {
      Join(row, span->second);
      waiting_spans_.erase(span);
    } else if (waiting_work_.size() < kMostWaiting) {
      waiting_work_.emplace(row.id, row);
    } else {
      owner_.Refuse();
    }
  }
}

void GpuSnapshotBuilder::Join(const schema::GpuWorkRow& row, const Span& span) {
  const std::optional<GpuWorkKind> kind = ParseGpuWorkKind(row.kind);
  const std::optional<GpuTimes> times = ParseGpuTimes(row.times);
  const std::optional<ChannelKind> channel_kind = ParseChannelKind(row.channel_kind);
  RankRows* rows = RowsOfTrack(span.track);
  if (!kind || !times || !channel_kind || rows == nullptr ||
      !SaneInterval(row.launch_start_ns, row.launch_duration_ns)) {
    owner_.Refuse();
    return;
  }
  GpuWork work = WorkOf(row, span);
  work.kind = *kind;
  work.times = *times;
  work.channel_kind = *channel_kind;
  rows->gpu_work.Append(work);
}

void GpuSnapshotBuilder::AddNccl(const store::RowBatch& batch) {
  for (const schema::NcclOperationRow& row : batch.Get<schema::NcclOperationRow>()) {
    // Without the thread that launched it nothing can be joined to it; its span is shown.
    if (row.launch_track.is_none()) continue;
    RankRows* rows = RowsOfTrack(row.launch_track);
    if (rows == nullptr || !SaneInterval(row.launch_start_ns, row.launch_duration_ns)) {
      owner_.Refuse();
      continue;
    }
    NcclOperation operation;
    operation.id = row.id;
    operation.communicator = owner_.Communicator(row.communicator);
    operation.group_size = Clamped(row.group_size);
    operation.sequence = row.sequence;
    operation.function = NameOfText(row.function);
    operation.algorithm = NameOfText(row.algorithm);
    operation.protocol = NameOfText(row.protocol);
    operation.channels = Clamped(row.channels);
    operation.bytes = row.bytes;
    operation.launch_track = row.launch_track;
    operation.launch_start_ns = row.launch_start_ns;
    operation.launch_end_ns = row.launch_start_ns + row.launch_duration_ns;
    rows->nccl.Append(operation);
  }
}

void GpuSnapshotBuilder::AddEdges(const store::RowBatch& batch) {
  for (const schema::EventEdgeRow& row : batch.Get<schema::EventEdgeRow>()) {
    RankRows* rows = RowsOfTrack(row.to_track);
    const bool known = rows != nullptr && rank_of_track_.contains(row.from_track);
    if (!known || !SaneTime(row.recorded_ns) || !SaneTime(row.waited_ns)) {
      owner_.Refuse();
      continue;
    }
    rows->event_edges.Append({row.from_track, row.to_track, row.from_correlation,
                              row.to_correlation, row.recorded_ns, row.waited_ns, row.from_plan_op,
                              row.to_plan_op, ClampedStep(row.from_step),
                              ClampedStep(row.to_step)});
  }
}

void GpuSnapshotBuilder::AddSegments(const store::RowBatch& batch) {
  for (const schema::MemorySegmentRow& row : batch.Get<schema::MemorySegmentRow>()) {
    RankRows* rows = owner_.RowsOfRank(row.rank);
    const bool sane = SaneTime(row.time_ns) && SaneBytes(row.bytes);
    if (rows == nullptr || !sane) {
      owner_.Refuse();
      continue;
    }
    if (std::string_view(row.kind) != "device") continue;
    rows->segments.Append({row.time_ns, row.bytes, Clamped(row.device), row.address});
    owner_.Extend(row.time_ns, row.time_ns);
  }
}

void GpuSnapshotBuilder::AddCounters(const store::RowBatch& batch) {
  const int32_t reserved = KnownName(trace_keys::kReservedBytes);
  const int32_t device_used = KnownName(trace_keys::kDeviceUsedBytes);
  for (const schema::CounterRow& row : batch.Get<schema::CounterRow>()) {
    const int32_t name = NameOf(row.name_string);
    if (name == 0 || (name != reserved && name != device_used)) continue;
    RankRows* rows = RowsOfTrack(row.track);
    // Written as a real number; what is none or absurd is no number of bytes.
    const bool sane = row.value >= 0 && row.value < static_cast<double>(kMaxBytes);
    if (rows == nullptr || !sane || !SaneTime(row.time_ns)) {
      owner_.Refuse();
      continue;
    }
    (name == reserved ? rows->reserved : rows->device_used)
        .Append({row.time_ns, std::llround(row.value)});
  }
}

void GpuSnapshotBuilder::End() {
  std::vector<Span> left;
  left.reserve(waiting_spans_.size());
  for (const auto& [id, span] : waiting_spans_) left.push_back(span);
  waiting_spans_.clear();
  for (size_t half = 0; half < waiting_work_.size(); ++half) owner_.Refuse();
  waiting_work_.clear();
  std::sort(left.begin(), left.end(), [](const Span& a, const Span& b) { return a.id < b.id; });
  for (const Span& span : left) {
    if (RankRows* rows = RowsOfTrack(span.track)) rows->spans.Append(span);
  }
}

}  // namespace shardscope::query
