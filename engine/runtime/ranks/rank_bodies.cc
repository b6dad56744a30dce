#include "engine/runtime/ranks/rank_bodies.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>

#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::runtime {
namespace {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::OpKind;

bool IsPooled(BufferKind kind) {
  return kind != BufferKind::kActivation && kind != BufferKind::kActivationGradient;
}

// Which of its unit's parameters each segment uses.
std::vector<std::vector<size_t>> MapParameters(const Job& job) {
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

RankBodies::RankBodies(int rank, const Surroundings& surroundings, model::Sampler sampler)
    : rank_(rank),
      job_(surroundings.job),
      model_(surroundings.model),
      sampler_(std::move(sampler)),
      transport_(surroundings.transport),
      sink_(surroundings.sink),
      pool_(std::make_shared<MemoryPool>(MemoryPool::Options{
          .rank = rank, .limit_bytes = job_->memory_limit, .poison = job_->poison})),
      segment_parameters_(MapParameters(*job_)) {
  const ShardedUnit::Place place{job_->shard_ranks, job_->shard_ranks == 1 ? 0 : rank};
  const TensorScope scope(pool_);
  for (const plan::Unit& unit : job_->description.units) {
    units_.emplace_back(job_->model, unit, place, job_->master, job_->training.seed);
    const int64_t bytes = units_.back().shard_bytes();
    memory_.Add(plan::MemoryCategory::kParameterShard, bytes);
    memory_.Add(plan::MemoryCategory::kGradientShard, bytes);
    memory_.Add(plan::MemoryCategory::kOptimizer, 2 * bytes);
  }
}

RankBodies::~RankBodies() {
  // A failed step leaves its buffers bound.
  for (Bound& bound : bound_) {
    if (bound.memory == nullptr) continue;
    pool_->Free(bound.memory, static_cast<size_t>(bound.bytes + bound.gap_bytes));
  }
}

void RankBodies::BeginStep(const plan::Schedule& schedule, double learning_rate) {
  if (schedule_ != &schedule) {
    for (const Bound& bound : bound_) SHARDSCOPE_CHECK(bound.bytes == 0);
    pool_->Trim();
    schedule_ = &schedule;
    bound_.clear();
    bound_.resize(schedule.ProgramOf(rank_).buffers.size());
  }
  learning_rate_ = learning_rate;
  outcome_ = StepOutcome();
}

int64_t RankBodies::EndStep() {
  pool_->EndStep();
  const int64_t unaccounted = pool_->allocated_bytes() - memory_.live_bytes();
  memory_.Add(plan::MemoryCategory::kOther, unaccounted);
  return unaccounted;
}

// Compute wants every parameter aligned; the Schedule's figure is without these gaps.
int64_t RankBodies::GapBytes(const plan::Buffer& buffer) const {
  if (buffer.kind != BufferKind::kUnsharded && buffer.kind != BufferKind::kGradient) return 0;
  const UnitLayout& layout = units_[static_cast<size_t>(buffer.unit)].layout();
  const int64_t elements = layout.num_ranks() * layout.shard_elements();
  return layout.UnshardedBytes(buffer.bytes / elements) - buffer.bytes;
}

int64_t RankBodies::Allocate(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  Bound& bound = At(id);
  if (IsPooled(buffer.kind)) {
    const int64_t gap_bytes = GapBytes(buffer);
    bound.memory = pool_->Allocate(static_cast<size_t>(buffer.bytes + gap_bytes));
    bound.gap_bytes = gap_bytes;
    ReportOther(context, gap_bytes);
  }
  bound.bytes = buffer.bytes;
  memory_.Add(plan::MemoryCategoryOf(buffer.kind), bound.bytes);
  if (buffer.kind == BufferKind::kGradient) {
    ZeroPadding(units_[static_cast<size_t>(buffer.unit)].layout(),
                {bound.memory, model::ScalarTypeOf(job_->model.dtype), at::kCPU});
  }
  return bound.bytes;
}

int64_t RankBodies::Free(const OpContext& context, BufferId id) {
  Bound& bound = At(id);
  const int64_t bytes = bound.bytes;
  if (bound.memory != nullptr) {
    pool_->Free(bound.memory, static_cast<size_t>(bytes + bound.gap_bytes));
    ReportOther(context, -bound.gap_bytes);
  }
  bound = Bound();
  memory_.Add(plan::MemoryCategoryOf(context.buffer(id).kind), -bytes);
  return bytes;
}

void RankBodies::ReportOther(const OpContext& context, int64_t bytes) {
  if (bytes == 0) return;
  memory_.Add(plan::MemoryCategory::kOther, bytes);
  sink_->OnOtherMemory(context, {plan::MemoryCategory::kOther, bytes, MonotonicNs()});
}

BufferId RankBodies::Find(const OpContext& context, const std::vector<BufferId>& ids,
                          BufferKind kind) {
  const auto found = std::find_if(ids.begin(), ids.end(),
                                  [&](BufferId id) { return context.buffer(id).kind == kind; });
  return found == ids.end() ? plan::kNone : *found;
}

std::byte* RankBodies::MemoryOf(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  if (!buffer.persistent) return At(id).memory;
  ShardedUnit& unit = units_[static_cast<size_t>(buffer.unit)];
  at::Tensor& tensor =
      buffer.kind == BufferKind::kGradientShard ? unit.gradient() : unit.parameters();
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

void RankBodies::LoadBatch(const OpContext& context) {
  const int64_t batch = job_->training.batch;
  const std::vector<int64_t> samples = sampler_.Samples(context.step, rank_);
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < batch; ++i) {
    const auto index = static_cast<size_t>(context.op().micro_batch * batch + i);
    model::AppendSample(job_->corpus->bytes, samples[index], job_->model.seq, &tokens);
  }
  if (job_->keep_batches) {
    kept_batches_.resize(static_cast<size_t>(context.step) + 1);
    std::vector<int64_t>& kept = kept_batches_.back();
    kept.insert(kept.end(), tokens.begin(), tokens.end());
  }
  Bound& bound = At(context.op().writes.front());
  const std::span memory(reinterpret_cast<int64_t*>(bound.memory),
                         static_cast<size_t>(bound.bytes) / sizeof(int64_t));
  bound.tokens = model::MakeTokenBatch(tokens, job_->model.seq, memory);
}

void RankBodies::Run(const OpContext& context) {
  ComputeOnOneThread();
  if (plan::CategoryOf(context.op().kind) == plan::Category::kCommunication) AskForShortSlices();
  const c10::InferenceMode no_autograd;
  const TensorScope scope(pool_);
  try {
    RunKind(context);
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  } catch (const transport::TransportTimeout& error) {
    throw executor::OtherRankError(error.what());
  }
}

void RankBodies::RunKind(const OpContext& context) {
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

}  // namespace shardscope::runtime
