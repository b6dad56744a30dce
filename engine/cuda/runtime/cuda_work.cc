#include "engine/cuda/runtime/cuda_work.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/runtime/stream_scope.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "trace/base/check.h"
#include "trace/base/text.h"

namespace shardscope::cuda {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::MemoryCategory;

CudaWork::CudaWork(int rank, const DevicePlace& place, const runtime::RankContext& rank_context,
                   model::Sampler sampler)
    : RankOps(rank, place.model, place.device, rank_context, std::move(sampler)), place_(place) {
  MakeUnits();
  // Copied: zeroing on the device would be work of a stream that the Schedule's do not wait for.
  loss_ = at::zeros({}, at::kDouble).to(device_);
  norm_ = at::zeros({1}, at::kDouble).to(device_);
  found_inf_ = at::zeros({1}, at::kDouble).to(device_);
}

// Buffers that a failed step left bound go back by themselves.
CudaWork::~CudaWork() = default;

// The last step has ended: what it used may go to any stream.
void CudaWork::OnSchedule(const plan::Schedule& schedule) {
  const plan::Program& program = schedule.ProgramOf(rank_);
  blocks_.clear();
  blocks_.resize(program.buffers.size());
  PlaceHostBuffers(schedule);
  if (!place_.uses_pool) return;
  placement_ = PlaceBuffers(schedule, program, [this](const auto& buffer) {
    const bool takes_place = IsBlock(buffer.kind) && !buffer.persistent &&
                             buffer.slot == plan::kNone && !IsInHostMemory(buffer);
    return takes_place ? buffer.bytes + GapOf(buffer) : 0;
  });
  pool_.clear();  // before the new one is taken
  OnDevice([&] {
    pool_ = c10::GetAllocator(device_.type())->allocate(static_cast<size_t>(placement_.bytes));
  });
}

bool CudaWork::IsInHostMemory(const plan::Buffer& buffer) const {
  if (!updates_on_host_ || buffer.persistent) return false;
  return plan::MemoryCategoryOf(buffer.kind) == MemoryCategory::kHost ||
         buffer.kind == BufferKind::kNorm || buffer.kind == BufferKind::kFoundInf;
}

// At places of their own: memory of an allocator would be given away when the host has issued
// what frees it, long before the GPU is there.
void CudaWork::PlaceHostBuffers(const plan::Schedule& schedule) {
  updates_on_host_ = std::ranges::any_of(schedule.streams, [](const plan::Stream& stream) {
    return stream.role == plan::StreamRole::kHostOptimizer;
  });
  const plan::Program& program = schedule.ProgramOf(rank_);
  host_placement_ = Placement{.offsets = std::vector(program.buffers.size(), kNotPlaced)};
  host_pool_ = at::Tensor();  // before the new one is taken
  if (!updates_on_host_) return;
  host_placement_ = PlaceBuffers(schedule, program, [this](const plan::Buffer& buffer) {
    return IsInHostMemory(buffer) ? buffer.bytes : 0;
  });
  if (host_placement_.bytes == 0) return;
  const at::TensorOptions options(at::kByte);
  OnDevice([&] {
    host_pool_ = at::empty({host_placement_.bytes}, options.pinned_memory(!device_.is_cpu()));
  });
}

// LibTorch puts advice on several lines behind the error; the executor gives its own.
void CudaWork::OnDevice(const std::function<void()>& work) {
  try {
    Guarded(work);
  } catch (const c10::AcceleratorError& error) {
    throw RuntimeError(std::string(FirstLine(error.what_without_backtrace())));
  }
}

int64_t CudaWork::Finish() {
  scalars_.reset();
  rank_context_.transport->ThrowIfAborted();
  OnDevice([&] {
    outcome_.loss = outcome_.tokens > 0 ? loss_.item<double>() : 0;
    if (updates_on_host_) return;  // which has the others
    outcome_.grad_norm = norm_.item<double>();
    outcome_.found_inf = found_inf_.item<double>() > 0;
  });
  if (!outcome_.found_inf) CheckGradientNorm(outcome_.grad_norm);
  return CountUnaccounted();
}

int64_t CudaWork::CountUnaccounted() {
  const int64_t handed_out = place_.memory == nullptr ? -1 : place_.memory->HandedOut(rank_);
  if (handed_out < 0) return 0;
  // The ops count what lies in the pool, not the pool.
  const int64_t pool_bytes = place_.uses_pool ? placement_.bytes : 0;
  const int64_t unaccounted = handed_out - pool_bytes - memory_.live_bytes();
  CountMemory(MemoryCategory::kOther, unaccounted);
  return unaccounted;
}

// The allocator's cache is the device's, not a rank's.
int64_t CudaWork::reserved_bytes() const {
  if (place_.memory == nullptr || !place_.is_first_of_device) return memory_.live_bytes();
  return place_.memory->Reserved(device_);
}

int64_t CudaWork::device_used_bytes() const {
  if (place_.memory == nullptr || !place_.is_first_of_device) return -1;
  return place_.memory->InUse();
}

void CudaWork::CountMemory(MemoryCategory category, int64_t bytes) {
  RankOps::CountMemory(category, bytes);
  const int64_t live_bytes = memory_.live_bytes();
  int64_t peak_bytes = peak_bytes_.load(std::memory_order_relaxed);
  while (peak_bytes < live_bytes && !peak_bytes_.compare_exchange_weak(peak_bytes, live_bytes)) {
  }
}

int64_t CudaWork::Allocate(const OpContext& context, BufferId id) {
  const c10::InferenceMode no_autograd;
  const StreamScope scope(device_, context.device_stream);
  int64_t bytes = 0;
  OnDevice([&] { bytes = RankOps::Allocate(context, id); });
  return bytes;
}

void CudaWork::TakeBlock(BufferId id, int64_t bytes) {
  if (IsPlacedOnHost(id)) return;
  if (!place_.uses_pool) {
    BlockAt(id) = c10::GetAllocator(device_.type())->allocate(static_cast<size_t>(bytes));
    return;
  }
  const int64_t offset = placement_.offsets[static_cast<size_t>(id)];
  SHARDSCOPE_CHECK(offset != kNotPlaced);
  BlockAt(id) = {static_cast<std::byte*>(pool_.get()) + offset, device_};
}

void CudaWork::GiveBlock(BufferId id, int64_t /*bytes*/) { BlockAt(id).clear(); }

// What is placed on the host is there for HostWork() after the buffer was given back.
std::byte* CudaWork::BlockOf(BufferId id) {
  if (!IsPlacedOnHost(id)) return static_cast<std::byte*>(BlockAt(id).get());
  return static_cast<std::byte*>(host_pool_.mutable_data_ptr()) +
         host_placement_.offsets[static_cast<size_t>(id)];
}

// All that such an op needs stays where it is until the step ends: units, and buffers at their
// places on the host.
std::function<void()> CudaWork::HostWork(const OpContext& context) {
  const plan::Stream& stream = context.schedule->streams[static_cast<size_t>(context.op().stream)];
  if (stream.role != plan::StreamRole::kHostOptimizer) return nullptr;
  OpContext on_host = context;
  on_host.device_stream = nullptr;
  return [this, on_host] { Run(on_host); };
}

void CudaWork::Run(const OpContext& context) {
  runtime::ComputeOnOneThread();
  const c10::InferenceMode no_autograd;
  const StreamScope scope(device_, context.device_stream);
  OnDevice([&] { Dispatch(context); });
}

void CudaWork::Communicate(const OpContext& context, const Collective& collective) {
  const std::string name = plan::OpName(*context.schedule, context.op());
  collective(CallOf(context, name));
}

// Fused kernels keep more for their backward than the Schedule counts.
void CudaWork::Forward(const OpContext& context) {
  RankOps::Forward(context);
  const BufferId id = context.op().writes.front();
  Bound& result = At(id);
  result.gap_bytes = model::SavedBytes(result.saved) - result.bytes;
  ReportGap(context, id, result.gap_bytes);
}

void CudaWork::AddLoss(const OpContext& context, const at::Tensor& loss) {
  const at::Tensor share =
      loss.to(at::kDouble).div(static_cast<double>(job_->training.micro_batches));
  if (context.op().micro_batch == 0) {
    loss_.copy_(share);
  } else {
    loss_.add_(share);
  }
}

void CudaWork::GradNorm(const OpContext& context) {
  if (updates_on_host_) return GradNormOnHost(context);
  ScalarAt(context.op().writes.front()).copy_(GradientSquares(units_, device_));
}

// The norm of what is not finite is not finite: no need to look at each number.
void CudaWork::Unscale(const OpContext& context) {
  if (updates_on_host_) return UnscaleOnHost(context);
  const at::Tensor is_finite = at::isfinite(GradientSquares(units_, device_));
  ScalarAt(context.op().writes.front()).copy_(is_finite.logical_not());
}

void CudaWork::Optimizer(const OpContext& context) {
  if (updates_on_host_) return OptimizerOnHost(context);
  const runtime::UpdateArgs args = UpdateOf(context.step);
  if (!scalars_ || scalars_step_ != context.step || scalars_stream_ != context.device_stream) {
    const BufferId squares = Find(context, context.op().reads, BufferKind::kNorm);
    const BufferId found_inf = Find(context, context.op().reads, BufferKind::kFoundInf);
    const DeviceUpdate update{.squares = ScalarAt(squares),
                              .clip = job_->training.clip,
                              .loss_scale = scaler_.scale,
                              .args = args};
    if (found_inf != plan::kNone) found_inf_.copy_(ScalarAt(found_inf));
    outcome_.learning_rate = args.learning_rate;
    scalars_ = ScalarsOf(update);
    norm_.copy_(scalars_->norm);
    scalars_step_ = context.step;
    scalars_stream_ = context.device_stream;
  }
  if (context.op().unit == plan::kNone) return;  // nothing of this rank is trained
  UpdateFused(args, *scalars_, &units_[static_cast<size_t>(context.op().unit)]);
}

}  // namespace shardscope::cuda
