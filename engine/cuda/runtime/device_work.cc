#include "engine/cuda/runtime/device_work.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "engine/cuda/runtime/stream_scope.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::cuda {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::MemoryCategory;
using plan::OpKind;
using runtime::ShardedUnit;

namespace {

bool IsBlock(BufferKind kind) {
  return kind != BufferKind::kActivation && kind != BufferKind::kActivationGradient;
}

// Which of its unit's parameters each segment uses.
std::vector<std::vector<size_t>> MapParameters(const runtime::Job& job) {
  std::vector<std::vector<size_t>> map;
  for (int64_t segment = 0; segment < model::NumSegments(job.model); ++segment) {
    const int32_t unit = job.description.segments[static_cast<size_t>(segment)].unit;
    const auto& in_unit = job.description.units[static_cast<size_t>(unit)].parameters;
    std::vector<size_t> indices;
    for (const plan::Parameter& parameter : model::ParametersOf(job.model, segment)) {
      const auto found = std::find(in_unit.begin(), in_unit.end(), parameter);
      SHARDSCOPE_CHECK(found != in_unit.end());
      indices.push_back(static_cast<size_t>(found - in_unit.begin()));
    }
    map.push_back(std::move(indices));
  }
  return map;
}

}  // namespace

DeviceWork::DeviceWork(int rank, const DevicePlace& place,
                       const runtime::Surroundings& surroundings, model::Sampler sampler)
    : rank_(rank),
      place_(place),
      surroundings_(surroundings),
      job_(surroundings.job),
      type_(model::ScalarTypeOf(job_->model.dtype)),
      sampler_(std::move(sampler)),
      segment_parameters_(MapParameters(*job_)) {
  const ShardedUnit::Place shard{job_->shard_ranks, job_->shard_ranks == 1 ? 0 : rank};
  for (const plan::Unit& unit : job_->description.units) {
    // Drawn on the host, so that every device starts from the same bits.
    ShardedUnit& made =
        units_.emplace_back(job_->model, unit, shard, job_->master, job_->training.seed);
    for (at::Tensor* tensor :
         {&made.parameters(), &made.gradient(), &made.first_moment(), &made.second_moment()}) {
      *tensor = tensor->to(place_.device);
    }
    CountMemory(MemoryCategory::kParameterShard, made.shard_bytes());
    CountMemory(MemoryCategory::kGradientShard, made.shard_bytes());
    CountMemory(MemoryCategory::kOptimizer, 2 * made.shard_bytes());
  }
  // Copied: zeroing on the device would be work of a stream that the Schedule's do not wait for.
  loss_ = at::zeros({}, at::kDouble).to(place_.device);
  norm_ = at::zeros({1}, at::kDouble).to(place_.device);
}

// Buffers that a failed step left bound go back by themselves.
DeviceWork::~DeviceWork() = default;

void DeviceWork::BeginStep(const plan::Schedule& schedule, double learning_rate) {
  if (schedule_ != &schedule) {
    // The last step has ended: what it used may go to any stream.
    for (const Bound& bound : bound_) SHARDSCOPE_CHECK(bound.bytes == 0);
    schedule_ = &schedule;
    bound_.clear();
    bound_.resize(schedule.ProgramOf(rank_).buffers.size());
    if (place_.uses_pool) {
      placement_ = PlaceBuffers(schedule, schedule.ProgramOf(rank_), [this](const auto& buffer) {
        return IsBlock(buffer.kind) && !buffer.persistent ? buffer.bytes + GapBytes(buffer) : 0;
      });
      pool_.clear();  // before the new one is taken
      pool_ =
          c10::GetAllocator(place_.device.type())->allocate(static_cast<size_t>(placement_.bytes));
    }
  }
  learning_rate_ = learning_rate;
  outcome_ = runtime::StepOutcome();
}

int64_t DeviceWork::EndStep() {
  outcome_ = {.loss = loss_.item<double>(), .grad_norm = norm_.item<double>()};
  if (!std::isfinite(outcome_.grad_norm)) {
    throw std::runtime_error("the gradient is not finite: lower train.lr, or use fp32");
  }
  return 0;
}

int64_t DeviceWork::reserved_bytes() const {
  // The allocator's cache is the device's, not a rank's: the first rank reports it.
  if (place_.device.is_cpu() || rank_ != job_->only_rank.value_or(0)) return memory_.live_bytes();
  const auto stats =
      c10::getDeviceAllocator(place_.device.type())->getDeviceStats(place_.device.index());
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return stats.reserved_bytes[all].current;
}

void DeviceWork::CountMemory(MemoryCategory category, int64_t bytes) {
  memory_.Add(category, bytes);
  const int64_t live_bytes = memory_.live_bytes();
  int64_t peak_bytes = peak_bytes_.load(std::memory_order_relaxed);
  while (peak_bytes < live_bytes && !peak_bytes_.compare_exchange_weak(peak_bytes, live_bytes)) {
  }
}

void DeviceWork::ReportOther(const OpContext& context, int64_t bytes) {
  if (bytes == 0) return;
  CountMemory(MemoryCategory::kOther, bytes);
  surroundings_.sink->OnOtherMemory(context, {MemoryCategory::kOther, bytes, MonotonicNs()});
}

// Compute wants every parameter aligned; the Schedule's figure is without these gaps.
int64_t DeviceWork::GapBytes(const plan::Buffer& buffer) const {
  if (buffer.kind != BufferKind::kUnsharded && buffer.kind != BufferKind::kGradient) return 0;
  const runtime::UnitLayout& layout = LayoutOf(buffer.unit);
  const int64_t elements = layout.num_ranks() * layout.shard_elements();
  return layout.UnshardedBytes(buffer.bytes / elements) - buffer.bytes;
}

c10::DataPtr DeviceWork::NewBlock(BufferId id, int64_t bytes) {
  if (!place_.uses_pool) {
    return c10::GetAllocator(place_.device.type())->allocate(static_cast<size_t>(bytes));
  }
  const int64_t offset = placement_.offsets[static_cast<size_t>(id)];
  SHARDSCOPE_CHECK(offset != kNotPlaced);
  return {static_cast<std::byte*>(pool_.get()) + offset, place_.device};
}

int64_t DeviceWork::Allocate(const OpContext& context, BufferId id) {
  const c10::InferenceMode no_autograd;
  const StreamScope scope(place_.device, context.device_stream);
  const plan::Buffer& buffer = context.buffer(id);
  Bound& bound = At(id);
  if (IsBlock(buffer.kind)) {
    bound.gap_bytes = GapBytes(buffer);
    bound.memory = NewBlock(id, buffer.bytes + bound.gap_bytes);
    ReportOther(context, bound.gap_bytes);
  }
  bound.bytes = buffer.bytes;
  CountMemory(plan::MemoryCategoryOf(buffer.kind), bound.bytes);
  if (buffer.kind == BufferKind::kGradient) {
    runtime::ZeroPadding(LayoutOf(buffer.unit), UnitMemoryOf(context, id, job_->model.dtype));
  }
  return bound.bytes;
}

int64_t DeviceWork::Free(const OpContext& context, BufferId id) {
  const int64_t bytes = At(id).bytes;
  ReportOther(context, -At(id).gap_bytes);
  At(id) = Bound();
  CountMemory(plan::MemoryCategoryOf(context.buffer(id).kind), -bytes);
  return bytes;
}

std::byte* DeviceWork::MemoryOf(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  if (!buffer.persistent) return static_cast<std::byte*>(At(id).memory.get());
  ShardedUnit& unit = units_[static_cast<size_t>(buffer.unit)];
  at::Tensor& tensor =
      buffer.kind == BufferKind::kGradientShard ? unit.gradient() : unit.parameters();
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

runtime::UnitMemory DeviceWork::UnitMemoryOf(const OpContext& context, BufferId id,
                                             plan::DType dtype) {
  return {MemoryOf(context, id), model::ScalarTypeOf(dtype), place_.device};
}

void DeviceWork::LoadBatch(const OpContext& context) {
  const int64_t batch = job_->training.batch;
  const std::vector<int64_t> samples = sampler_.Samples(context.step, rank_);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < batch; ++i) {
    const auto index = static_cast<size_t>(context.op().micro_batch * batch + i);
    model::AppendSample(job_->corpus->bytes, samples[index], job_->model.seq, &ids);
  }
  if (job_->keep_batches) {
    kept_batches_.resize(static_cast<size_t>(context.step) + 1);
    kept_batches_.back().insert(kept_batches_.back().end(), ids.begin(), ids.end());
  }
  Bound& bound = At(context.op().writes.front());
  std::vector<int64_t> ordered(static_cast<size_t>(bound.bytes) / sizeof(int64_t));
  model::MakeTokenBatch(ids, job_->model.seq, ordered);
  const auto count = static_cast<int64_t>(ordered.size());
  const at::Tensor all = at::from_blob(bound.memory.get(), {2, count / 2},
                                       at::TensorOptions(at::kLong).device(place_.device));
  // Pageable memory: LibTorch waits for this copy, on a stream that has nothing else to do.
  all.copy_(at::from_blob(ordered.data(), {2, count / 2}, at::TensorOptions(at::kLong)));
  bound.tokens = {all.select(0, 0), all.select(0, 1)};
}

void DeviceWork::Run(const OpContext& context) {
  runtime::ComputeOnOneThread();
  const c10::InferenceMode no_autograd;
  const StreamScope scope(place_.device, context.device_stream);
  try {
    RunKind(context);
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  } catch (const transport::TransportTimeout& error) {
    throw executor::OtherRankError(error.what());
  }
}

void DeviceWork::RunKind(const OpContext& context) {
  switch (context.op().kind) {
    case OpKind::kControl:
      if (on_control_) on_control_(context.step);
      return;
    case OpKind::kLoadBatch:
      return LoadBatch(context);
    case OpKind::kCast:
      return Cast(context);
    case OpKind::kCopyIn:
      return CopyIn(context);
    case OpKind::kCopyOut:
      return CopyOut(context);
    case OpKind::kAccumulate:
      return Accumulate(context);
    case OpKind::kAllGather:
      return AllGather(context);
    case OpKind::kReduceScatter:
      return ReduceScatter(context);
    case OpKind::kAllReduce:
      return AllReduce(context);
    case OpKind::kForward:
      return Forward(context);
    case OpKind::kBackward:
      return Backward(context);
    case OpKind::kReshard:
    case OpKind::kRelease:
      return;  // the executor frees
    case OpKind::kGradNorm:
      return GradNorm(context);
    case OpKind::kOptimizer:
      return Optimizer(context);
  }
}

}  // namespace shardscope::cuda
