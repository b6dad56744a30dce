#include "engine/cuda/recording/gpu_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/words.h"

namespace shardscope::cuda {
namespace {

plan::OpIndex OpOfKey(int64_t key) { return static_cast<plan::OpIndex>(key & 0xFF'FFFF); }
int64_t StepOfKey(int64_t key) { return key >> 32; }

}  // namespace

GpuLog::GpuLog(GpuLogOptions options) : options_(std::move(options)) {}
GpuLog::~GpuLog() = default;

void GpuLog::Open(record::Recorder* recorder, executor::OpIds ids) {
  gpu::GpuRecorderOptions options;
  options.identity_of = [this](int64_t key) { return IdentityOf(key); };
  options.rank_of_device = options_.rank_of_device;
  const auto gpu = std::make_shared<gpu::GpuRecorder>(recorder, std::move(options));
  if (options_.flush) gpu->SetFlush(options_.flush);
  const MutexLock lock(mutex_);
  gpu_ = gpu;
  trace_ = recorder;
  ids_ = std::move(ids);
}

gpu::GpuCounts GpuLog::Close() {
  const std::shared_ptr<gpu::GpuRecorder> gpu = recorder();
  if (gpu == nullptr) return {};
  const gpu::GpuCounts counts = gpu->Finish();
  const MutexLock lock(mutex_);
  gpu_.reset();
  return counts;
}

std::shared_ptr<gpu::GpuRecorder> GpuLog::recorder() const {
  const MutexLock lock(mutex_);
  return gpu_;
}

void GpuLog::Add(const cupti::Batch& batch, const cupti::Names& names) {
  const std::shared_ptr<gpu::GpuRecorder> gpu = recorder();
  if (gpu == nullptr) return Keep(batch);
  Early early;
  record::Recorder* trace = nullptr;
  {
    const MutexLock lock(mutex_);
    early = std::exchange(early_, {});
    trace = trace_;
  }
  if (early.works > 0) {
    schema::MarkerRow note;
    note.time_ns = MonotonicNs();
    note.step = -1;
    note.kind = words::Name(words::MarkerKind::kNote);
    note.new_value = fmt::format(
        "{} kernels and copies from before the trace was opened are not in it", early.works);
    trace->Add(note);
  }
  if (!early.memory.empty() || !early.streams.empty()) {
    cupti::Batch before;
    before.memory = std::move(early.memory);
    before.streams = std::move(early.streams);
    gpu->Add(before, names);
  }
  gpu->Add(batch, names);
}

void GpuLog::Keep(const cupti::Batch& batch) {
  const MutexLock lock(mutex_);
  early_.memory.insert(early_.memory.end(), batch.memory.begin(), batch.memory.end());
  early_.streams.insert(early_.streams.end(), batch.streams.begin(), batch.streams.end());
  early_.works += batch.kernels.size() + batch.copies.size();
}

void GpuLog::OnBegin(const executor::OpContext& context) {
  if (!is_recording_) return;
  const auto thread = static_cast<uint32_t>(gettid());
  const std::shared_ptr<gpu::GpuRecorder> gpu = recorder();
  if (gpu == nullptr) return;
  bool is_new_thread = false;
  {
    const MutexLock lock(mutex_);
    Host& host = hosts_[context.rank];
    is_new_thread = std::exchange(host.thread, thread) != thread;
    const auto& entered = host.SchedulesOf(context.step);
    const bool is_new = entered.empty() || entered.rbegin()->second.schedule != context.schedule;
    if (is_new) EnterSchedule(context, &host);
  }
  if (is_new_thread) gpu->OwnThread(thread, {.rank = context.rank, .name = "host"});
  OwnStream(context);
}

// Which plan ops the keys of this and the following steps stand for.
void GpuLog::EnterSchedule(const executor::OpContext& context, Host* host) {
  ScheduleOps& entered = host->SchedulesOf(context.step)[Host::PlaceOf(context.step)];
  entered.schedule = context.schedule;
  executor::OpContext at = context;
  for (size_t op = 0; op < context.program->ops.size(); ++op) {
    at.index = static_cast<plan::OpIndex>(op);
    entered.ops.push_back(
        {.plan_op = ids_.plan_op(at), .category = plan::Name(plan::CategoryOf(at.op().kind))});
  }
}

void GpuLog::OwnStream(const executor::OpContext& context) {
  executor::OpIds ids;
  {
    const MutexLock lock(mutex_);
    if (!owned_.emplace(context.device_stream, context.rank).second) return;
    ids = ids_;
  }
  const plan::Stream& stream = context.schedule->streams[static_cast<size_t>(context.op().stream)];
  recorder()->OwnStream(options_.id_of_stream(context.device_stream),
                        {.rank = context.rank,
                         .name = stream.name,
                         .role = std::string(plan::Name(stream.role)),
                         .position = static_cast<int64_t>(stream.role),
                         .op_track = ids.track(context)});
}

void GpuLog::OnIssued(const cupti::HostOp& op) {
  if (!is_recording_) return;
  const std::shared_ptr<gpu::GpuRecorder> gpu = recorder();
  if (gpu == nullptr) return;
  const int rank = RankOfKey(op.key);
  {
    const MutexLock lock(mutex_);
    Host& host = hosts_[rank];
    // Another rank's thread may issue for this one.
    if (host.thread == op.thread) {
      host.issued_until_ns = std::max(host.issued_until_ns, op.end_ns);
    }
  }
  gpu->OpIssued(op, rank);
}

void GpuLog::OnNccl(const gpu::NcclRange& call) {
  if (const std::shared_ptr<gpu::GpuRecorder> gpu = recorder()) gpu->CalledNccl(call);
}

std::vector<DeviceInterval> GpuLog::TakeStep(int rank, int64_t step, size_t num_ops) {
  std::vector<DeviceInterval> intervals(num_ops);
  const std::shared_ptr<gpu::GpuRecorder> gpu = recorder();
  if (gpu == nullptr || !is_recording_) return intervals;
  std::vector<int64_t> keys;
  for (size_t op = 0; op < num_ops; ++op) {
    keys.push_back(OpRunKey(rank, step, static_cast<plan::OpIndex>(op)));
  }
  uint32_t thread = 0;
  int64_t until_ns = 0;
  {
    const MutexLock lock(mutex_);
    const Host& host = hosts_[rank];
    thread = host.thread;
    until_ns = host.issued_until_ns;
  }
  const std::vector<cupti::OpWork> works = gpu->TakeOps(thread, until_ns, keys);
  for (size_t op = 0; op < std::min(num_ops, works.size()); ++op) {
    intervals[op] = {works[op].start_ns, works[op].end_ns};
  }
  return intervals;
}

gpu::OpIdentity GpuLog::IdentityOf(int64_t key) const {
  const MutexLock lock(mutex_);
  const auto host = hosts_.find(RankOfKey(key));
  if (host == hosts_.end()) return {};
  const auto& schedules = host->second.SchedulesOf(StepOfKey(key));
  const auto after = schedules.upper_bound(Host::PlaceOf(StepOfKey(key)));
  if (after == schedules.begin()) return {};
  gpu::OpIdentity identity = std::prev(after)->second.ops.at(static_cast<size_t>(OpOfKey(key)));
  identity.step = StepOfKey(key);
  return identity;
}

}  // namespace shardscope::cuda
