#include "trace/record/gpu/row_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/base/words.h"

namespace shardscope::gpu {
namespace {

// As NCCL's own ranges are named in a recorded program, by their domain.
constexpr std::string_view kNcclPrefix = "NCCL: ";

using words::Category;
using words::GpuTimes;
using words::GpuWorkKind;
using words::MemorySegmentKind;
using words::SpanCategory;

struct CopyNames {
  GpuWorkKind kind;
  std::string_view title;  // for people
};

CopyNames NamesOf(cupti::CopyKind kind) {
  switch (kind) {
    case cupti::CopyKind::kHostToDevice:
      return {GpuWorkKind::kCopyToDevice, "copy host to device"};
    case cupti::CopyKind::kDeviceToHost:
      return {GpuWorkKind::kCopyToHost, "copy device to host"};
    case cupti::CopyKind::kDeviceToDevice:
      return {GpuWorkKind::kCopyOnDevice, "copy on device"};
    case cupti::CopyKind::kPeer:
      return {GpuWorkKind::kCopyToPeer, "copy to another device"};
    case cupti::CopyKind::kSet:
      return {GpuWorkKind::kSet, "set memory"};
    case cupti::CopyKind::kOther:
      break;
  }
  return {GpuWorkKind::kCopy, "copy"};
}

MemorySegmentKind SegmentKindOf(cupti::MemoryKind kind) {
  switch (kind) {
    case cupti::MemoryKind::kDevice:
      return MemorySegmentKind::kDevice;
    case cupti::MemoryKind::kManaged:
      return MemorySegmentKind::kManaged;
    case cupti::MemoryKind::kPinned:
      return MemorySegmentKind::kPinned;
    case cupti::MemoryKind::kPageable:
      return MemorySegmentKind::kPageable;
    case cupti::MemoryKind::kOther:
      break;
  }
  return MemorySegmentKind::kOther;
}

void FillKernel(const cupti::Kernel& kernel, schema::GpuWorkRow* row) {
  row->grid_x = kernel.grid[0];
  row->grid_y = kernel.grid[1];
  row->grid_z = kernel.grid[2];
  row->block_x = kernel.block[0];
  row->block_y = kernel.block[1];
  row->block_z = kernel.block[2];
  row->cluster_x = kernel.cluster[0];
  row->cluster_y = kernel.cluster[1];
  row->cluster_z = kernel.cluster[2];
  row->registers = kernel.registers;
  row->static_shared_bytes = kernel.static_shared_memory;
  row->dynamic_shared_bytes = kernel.dynamic_shared_memory;
  row->graph = kernel.graph;
  row->graph_node = static_cast<int64_t>(kernel.graph_node);
}

}  // namespace

std::string NameOfStream(uint32_t device, cupti::StreamId stream) {
  return fmt::format("GPU {} context {} stream {}", device, stream.context, stream.stream);
}

// Rows come in bursts, and nothing waits for them here: rather than to lose any, this waits for the
// writer.
template <typename Row>
void RowWriter::Record(const Row& row) {
  target_->recorder().Record(row);
  if (++rows_ % record::Recorder::kRowsBetweenRoom == 0) target_->recorder().MakeRoom();
}

void RowWriter::Write(const cupti::Joined& joined, const cupti::Names& names) {
  for (const cupti::Work& work : joined.works) WriteWork(work, names);
  for (const cupti::Edge& edge : joined.edges) WriteEdge(edge);
  for (const cupti::JoinedCall& one : joined.calls) {
    const cupti::ApiCall& call = one.call;
    WriteSpan(TrackOfThread(call.thread), call.start_ns, call.end_ns, NameOf(call.name, names),
              one.waits ? SpanCategory::kWait : SpanCategory::kHost);
  }
  for (const cupti::MemoryOperation& operation : joined.memory) WriteMemory(operation);
  for (const cupti::Overhead& overhead : joined.overheads) {
    if (overhead_track_ == schema::TrackId()) overhead_track_ = target_->OverheadTrack();
    WriteSpan(overhead_track_, overhead.start_ns, overhead.end_ns, NameOf(overhead.name, names),
              SpanCategory::kHost);
  }
  clocks_.Add(joined);
  WriteClocks(/*all=*/false);
}

void RowWriter::WriteNccl(std::vector<NcclRange> ranges, int64_t fence_ns) {
  nccl_.Add(std::move(ranges));
  for (const NcclRange& range : nccl_.Take(fence_ns)) {
    Record(SpanOf(TrackOfThread(range.thread), range.start_ns, range.end_ns,
                  target_->Name(std::string(kNcclPrefix) + range.name), SpanCategory::kHost));
  }
}

void RowWriter::WriteClocks(bool all) {
  for (const ClockReading& reading : clocks_.Take(all)) {
    schema::GpuClockRow row;
    row.rank = target_->RankOfDevice(reading.device);
    row.device = reading.device;
    row.method = words::Name(words::GpuClockMethod::kCupti);
    row.time_ns = reading.time_ns;
    row.low_ns = reading.low_ns;
    row.high_ns = reading.high_ns;
    row.works = reading.works;
    row.waits = reading.waits;
    target_->recorder().Add(row);
  }
}

schema::TrackId RowWriter::TrackOf(uint32_t device, cupti::StreamId stream) {
  schema::TrackId& track = tracks_[stream];
  if (track != schema::TrackId()) return track;
  const RowTarget::StreamTrack added = target_->AddStreamTrack(device, stream);
  track = added.track;
  schema::GpuStreamRow row;
  row.track = track;
  row.op_track = added.op_track;
  row.device = device;
  row.context = stream.context;
  row.stream = stream.stream;
  const auto priority = priorities_.find(stream);
  row.priority = priority == priorities_.end() ? 0 : priority->second;
  target_->recorder().Add(row);
  return track;
}

schema::TrackId RowWriter::TrackOfThread(uint32_t thread) {
  schema::TrackId& track = thread_tracks_[thread];
  if (track == schema::TrackId()) track = target_->CallTrack(thread);
  return track;
}

const RowWriter::KernelName& RowWriter::NameOfKernel(int32_t name, const cupti::Names& names) {
  const auto [entry, is_new] = kernel_names_.try_emplace(name);
  // Of work that no op owns, kernels of collectives are known by name; what NCCL's names hold
  // beyond that is not true (one kernel stands for many algorithms).
  if (is_new) entry->second = {NameOf(name, names), IsCommunicationKernel(names.Text(name))};
  return entry->second;
}

schema::StringId RowWriter::NameOf(int32_t name, const cupti::Names& names) {
  schema::StringId& id = names_[name];
  if (id == schema::StringId()) id = target_->Name(names.Text(name));
  return id;
}

schema::SpanRow SpanOf(schema::TrackId track, int64_t start_ns, int64_t end_ns,
                       schema::StringId name, words::SpanCategory category) {
  schema::SpanRow row;
  row.track = track;
  row.start_ns = start_ns;
  row.duration_ns = std::max<int64_t>(0, end_ns - start_ns);
  row.name_string = name;
  row.category = words::Name(category);
  row.op_run = schema::OpRunId::None();
  return row;
}

void RowWriter::WriteSpan(schema::TrackId track, int64_t start_ns, int64_t end_ns,
                          schema::StringId name, words::SpanCategory category) {
  if (start_ns <= 0 || !target_->IsRecorded(start_ns)) return;
  Record(SpanOf(track, start_ns, end_ns, name, category));
}

void RowWriter::WriteWork(const cupti::Work& work, const cupti::Names& names) {
  const bool is_kernel = work.kind == cupti::WorkKind::kKernel;
  const bool has_call = work.call_start_ns > 0;
  const bool is_unfinished = work.start_ns > 0 && work.end_ns == 0;
  const bool is_lost = !work.HasTimes() && !is_unfinished;
  if (is_lost && !has_call) {
    ++unplaced_;
    return;
  }
  const int64_t start_ns = is_lost ? work.call_end_ns : work.start_ns;
  if (!target_->IsRecorded(has_call ? work.call_start_ns : start_ns)) return;
  const OpIdentity op = work.op == cupti::kNoOp ? OpIdentity() : target_->IdentityOf(work.op);
  record::GpuWorkRecord record;
  record.span.track = TrackOf(is_kernel ? work.kernel.device : work.copy.device, work.stream);
  record.span.start_ns = start_ns;
  record.span.duration_ns = work.HasTimes() ? work.end_ns - work.start_ns : 0;
  record.span.op_run = schema::OpRunId::None();
  schema::GpuWorkRow& row = record.work;
  row.times = Name(is_lost         ? GpuTimes::kLost
                   : is_unfinished ? GpuTimes::kUnfinished
                                   : GpuTimes::kMeasured);
  row.plan_op = op.plan_op;
  row.step = op.plan_op.is_none() ? -1 : op.step;
  row.launch_track = has_call ? TrackOfThread(work.call_thread) : schema::TrackId::None();
  row.launch_start_ns = has_call ? work.call_start_ns : start_ns;
  row.launch_duration_ns = has_call ? work.call_end_ns - work.call_start_ns : 0;
  row.correlation = work.correlation;
  if (is_kernel) {
    const KernelName& name = NameOfKernel(work.kernel.name, names);
    record.span.name_string = name.name;
    record.span.category = !op.category.empty() ? op.category
                                                : Name(name.communication ? Category::kCommunication
                                                                          : Category::kCompute);
    row.kind = Name(GpuWorkKind::kKernel);
    FillKernel(work.kernel, &row);
  } else {
    const CopyNames copy = NamesOf(work.copy.kind);
    record.span.name_string = target_->Name(copy.title);
    record.span.category = op.category.empty() ? Name(Category::kCopy) : op.category;
    row.kind = Name(copy.kind);
    row.bytes = work.copy.bytes;
  }
  const cupti::Channel channel = is_kernel ? work.kernel.channel : work.copy.channel;
  row.channel = channel.id;
  row.channel_kind = Name(channel.kind);
  Record(record);
}

void RowWriter::WriteEdge(const cupti::Edge& edge) {
  const auto from = tracks_.find(edge.from);
  const auto to = tracks_.find(edge.to);
  // A stream without work has no track, and nothing waited there.
  if (from == tracks_.end() || to == tracks_.end() || !target_->IsRecorded(edge.waited_ns)) return;
  const OpIdentity before =
      edge.from_op == cupti::kNoOp ? OpIdentity() : target_->IdentityOf(edge.from_op);
  const OpIdentity after =
      edge.to_op == cupti::kNoOp ? OpIdentity() : target_->IdentityOf(edge.to_op);
  schema::EventEdgeRow row;
  row.recording = static_cast<int64_t>(edge.recording);
  row.from_track = from->second;
  row.to_track = to->second;
  row.from_correlation = edge.from_correlation;
  row.to_correlation = edge.to_correlation;
  row.recorded_ns = edge.recorded_ns > 0 ? edge.recorded_ns : edge.waited_ns;
  row.waited_ns = edge.waited_ns;
  row.from_plan_op = before.plan_op;
  row.from_step = before.step;
  row.to_plan_op = after.plan_op;
  row.to_step = after.step;
  Record(row);
}

void RowWriter::WriteMemory(const cupti::MemoryOperation& operation) {
  if (operation.time_ns <= 0 || !target_->IsMemoryRecorded(operation.time_ns)) return;
  schema::MemorySegmentRow row;
  if (operation.kind == cupti::MemoryKind::kDevice && operation.bytes > 0) {
    nccl_.Took(operation.time_ns);
  }
  row.rank = target_->RankOfDevice(operation.device);
  row.device = operation.device;
  row.time_ns = operation.time_ns;
  row.address = static_cast<int64_t>(operation.address);
  row.bytes = operation.bytes;
  row.kind = words::Name(SegmentKindOf(operation.kind));
  row.correlation = operation.correlation;
  Record(row);
}

}  // namespace shardscope::gpu
