#include "engine/runtime/ranks/rank_ops.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "engine/executor/execution_sink.h"
#include "engine/runtime/units/state_move.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::OpKind;

namespace {

// How much of the weights a disk is asked for ahead of what is filled, where ranks hold shards: at
// 128 MB in bf16 it never waits for small units.
constexpr int64_t kElementsAhead = int64_t{64} << 20;

int64_t ShardElements(const StateLayout& layout, int rank, int32_t unit) {
  if (!layout.Has(rank, unit)) return 0;
  int64_t elements = 0;
  for (const plan::Parameter& parameter : layout.units[static_cast<size_t>(unit)].parameters) {
    elements += plan::NumElements(parameter.shape);
  }
  return elements / layout.shard_ranks();
}

UnitParameter FindParameter(const StateLayout& layout, int64_t segment,
                            const plan::Parameter& parameter) {
  for (const int32_t unit : layout.segments[static_cast<size_t>(segment)].units) {
    const auto& in_unit = layout.units[static_cast<size_t>(unit)].parameters;
    const auto found = std::ranges::find(in_unit, parameter.name, &plan::Parameter::name);
    if (found != in_unit.end()) return {unit, static_cast<size_t>(found - in_unit.begin())};
  }
  SHARDSCOPE_CHECK(false);
  return {};
}

// What each segment uses, in the order of model::ParametersOf().
std::vector<std::vector<UnitParameter>> MapParameters(const model::ModelConfig& model,
                                                      const StateLayout& layout) {
  std::vector<std::vector<UnitParameter>> map;
  for (int64_t segment = 0; segment < model::NumSegments(model); ++segment) {
    std::vector<UnitParameter>& used = map.emplace_back();
    for (const plan::Parameter& parameter : model::ParametersOf(model, segment)) {
      used.push_back(FindParameter(layout, segment, parameter));
    }
  }
  return map;
}

}  // namespace

RankOps::RankOps(int rank, const model::SegmentModel* model, at::Device device,
                 const RankContext& rank_context, model::Sampler sampler)
    : rank_(rank),
      device_(device),
      rank_context_(rank_context),
      job_(rank_context.job),
      layout_(rank_context.job->initial_layout),
      scaler_(model::MakeScaler(job_->training.scaler)),
      model_(*model),
      sampler_(std::move(sampler)),
      count_{.sampler = sampler_},
      segment_parameters_(MapParameters(job_->model, layout_)) {}

void RankOps::MakeUnits() {
  const auto source = job_->InitialSource(rank_);
  const auto num_units = static_cast<int32_t>(layout_.units.size());
  int32_t announced = 0;
  int64_t ahead = 0;  // elements
  for (int32_t unit = 0; unit < num_units; ++unit) {
    // The disk reads the next ones while memory is filled for this one.
    while (announced < num_units && (announced <= unit + 1 || ahead < kElementsAhead)) {
      AnnounceUnit(layout_, announced, rank_, *source);
      ahead += ShardElements(layout_, rank_, announced++);
    }
    ahead -= ShardElements(layout_, rank_, unit);
    units_.push_back(MakeUnit(layout_, unit, rank_, job_->state_dtypes()));
    units_.back().Initialize(*source);
    units_.back().MoveTo(device_);
  }
  if (IsOffloaded(layout_) && device_.is_cpu()) LeaveHostMemory();
  CountState(1);
}

void RankOps::CountState(int sign) {
  for (const plan::Buffer& buffer : layout_.buffers) {
    if (!layout_.Has(rank_, buffer.unit)) continue;
    CountMemory(plan::MemoryCategoryOf(buffer.kind), sign * buffer.bytes);
    CountMemory(plan::MemoryCategory::kOther, sign * GapOf(buffer));
  }
}

void RankOps::MoveState(StateLayout layout) {
  StateMove move(std::move(layout), rank_, job_->state_dtypes());
  CountState(-1);
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const ShardedUnit from = std::move(units_[unit]);  // ends here
    move.Take(layout_, static_cast<int32_t>(unit), from, rank_context_.transport);
  }
  layout_ = move.layout();
  units_ = move.Finish(device_);
  if (IsOffloaded(layout_) && device_.is_cpu()) LeaveHostMemory();
  segment_parameters_ = MapParameters(job_->model, layout_);
  CountState(1);
}

void RankOps::LeaveHostMemory() {
  WithMemory([&] {
    for (ShardedUnit& unit : units_) unit.LeaveHostMemory();
  });
}

void RankOps::SetSchedule(const plan::Schedule& schedule) {
  for (const Bound& bound : bound_) SHARDSCOPE_CHECK(bound.bytes == 0);
  if (StateLayout layout = StateLayoutOf(schedule); layout != layout_) {
    WithStateMemory(layout, [&] { MoveState(std::move(layout)); });
    WithMemory([&] { slots_.clear(); });
  }
  bound_.clear();
  bound_.resize(schedule.ProgramOf(rank_).buffers.size());
  WithMemory([&] { MakeSlots(schedule.ProgramOf(rank_)); });
  groups_.clear();
  pairs_.clear();
  for (const plan::Communicator& communicator : schedule.communicators) {
    groups_.push_back(plan::GroupOf(schedule.mesh, communicator, rank_));
  }
  for (const plan::Op& op : schedule.ProgramOf(rank_).ops) {
    if (op.peer == plan::kNone) continue;
    const plan::Meeting meeting = plan::MeetingOf(schedule, rank_, op);
    const std::vector<int32_t> ranks = plan::RanksOf(schedule, meeting);
    pairs_[meeting] = {.place = rank_ == ranks.front() ? 0 : 1, .ranks = ranks};
  }
  const auto has = [&](auto condition) {
    return std::ranges::any_of(schedule.ProgramOf(rank_).ops, condition);
  };
  scatters_ = has([](const plan::Op& op) {
    return op.unit != plan::kNone && op.kind == OpKind::kReduceScatter;
  });
  reduces_ = has([&](const plan::Op& op) {
    return op.unit != plan::kNone && plan::TraitsOf(op.kind).reduces &&
           !schedule.IsOfTensorRanks(op.communicator);
  });
  part_ = {};
  if (plan::IsSequenceParallel(schedule.segments)) {
    part_ = {layout_.mesh.Coordinate(rank_, plan::MeshDimension::kTensor),
             layout_.mesh.size(plan::MeshDimension::kTensor)};
  }
  OnSchedule(schedule);
}

// Each direction has a wire of its own.
void RankOps::SetHostLink(const config::DimensionLink& link) {
  host_links_.to_device.reset();
  host_links_.to_host.reset();
  if (!link.bytes_per_second) return;
  host_links_.to_device.emplace(1, *link.bytes_per_second, link.latency_ns.value_or(0));
  host_links_.to_host.emplace(1, *link.bytes_per_second, link.latency_ns.value_or(0));
}

// As large as the largest of its units, with the gaps that align parameters. One that is not taken
// stays as it was: an evaluation has no gradients, and its training goes on with their slots.
void RankOps::MakeSlots(const plan::Program& program) {
  std::map<BufferId, int64_t> bytes;
  const int64_t element_bytes = plan::BytesOf(job_->model.dtype);
  for (const plan::Buffer& buffer : program.buffers) {
    if (buffer.slot == plan::kNone) continue;
    int64_t& most = bytes[buffer.slot];
    const bool is_trained_part = plan::HoldsTrainedPart(buffer.kind);
    const UnitLayout& layout =
        is_trained_part ? GradientLayout(buffer.unit) : LayoutOf(buffer.unit);
    most = std::max(most, layout.UnshardedBytes(element_bytes));
  }
  std::erase_if(slots_, [&](const auto& slot) { return bytes.contains(slot.first); });
  const at::TensorOptions options(at::kByte);
  for (const auto& [slot, most] : bytes) {
    slots_[slot] = at::empty({most}, options.device(device_));
  }
}

// On all ranks, those that read no data too: they may come to read some.
void RankOps::BeginStep(int64_t step, double learning_rate) {
  const int takers = layout_.mesh.SizeOf(plan::kDataDimensions);
  sampler_.SetTakers(step, takers);
  count_.sampler.SetTakers(step, takers);
  BeginOutcome(learning_rate);
}

void RankOps::BeginOutcome(double learning_rate) {
  learning_rate_ = learning_rate;
  outcome_ = StepOutcome();
  outcome_.loss_scale = scaler_.scale;
  count_.held_out = HeldOutBatch();
}

std::map<std::string, double> RankOps::Scalars() const {
  std::map<std::string, double> scalars = {
      {"scaler.num_skipped", static_cast<double>(scaler_.num_skipped)}};
  if (job_->training.scaler.is_on) {
    scalars["scaler.scale"] = scaler_.scale;
    scalars["scaler.growth_tracker"] = static_cast<double>(scaler_.growth_tracker);
  }
  return scalars;
}

void RankOps::SetScalars(const std::map<std::string, double>& scalars) {
  const auto take = [&](const char* name, auto* value) {
    const auto found = scalars.find(name);
    if (found != scalars.end()) *value = static_cast<std::decay_t<decltype(*value)>>(found->second);
  };
  take("scaler.num_skipped", &scaler_.num_skipped);  // the optimizer has counted fewer steps
  if (!job_->training.scaler.is_on) return;
  take("scaler.scale", &scaler_.scale);
  take("scaler.growth_tracker", &scaler_.growth_tracker);
}

int64_t RankOps::EndStep() {
  const int64_t unaccounted = Finish();
  const bool has_updated = count_.held_out.end == 0;  // it was no evaluation
  if (has_updated && job_->training.scaler.is_on)
    scaler_.Update(job_->training.scaler, outcome_.found_inf);
  return unaccounted;
}

void RankOps::BeginEvaluation(const HeldOutBatch& batch) {
  BeginOutcome(0);
  count_.held_out = batch;
}

int64_t RankOps::Allocate(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  Bound& bound = At(id);
  if (buffer.slot != plan::kNone) {
    bound.bytes = buffer.bytes;
    if (buffer.kind == BufferKind::kGradient) {
      ZeroPadding(GradientLayout(buffer.unit), UnitMemoryOf(context, id, job_->model.dtype));
    }
    return 0;
  }
  if (IsBlock(buffer.kind)) {
    const int64_t gap_bytes = GapOf(buffer);
    TakeBlock(id, buffer.bytes + gap_bytes);
    bound.gap_bytes = gap_bytes;
    ReportGap(context, id, gap_bytes);
  }
  bound.bytes = buffer.bytes;
  CountMemory(plan::MemoryCategoryOf(buffer.kind), bound.bytes);
  if (buffer.kind == BufferKind::kGradient) {
    ZeroPadding(GradientLayout(buffer.unit), UnitMemoryOf(context, id, job_->model.dtype));
  }
  return bound.bytes;
}

int64_t RankOps::Free(const OpContext& context, BufferId id) {
  Bound& bound = At(id);
  if (context.buffer(id).slot != plan::kNone) {
    bound = Bound();
    return 0;
  }
  const int64_t bytes = bound.bytes;
  if (IsBlock(context.buffer(id).kind)) GiveBlock(id, bytes + bound.gap_bytes);
  ReportGap(context, id, -bound.gap_bytes);
  bound = Bound();
  CountMemory(plan::MemoryCategoryOf(context.buffer(id).kind), -bytes);
  return bytes;
}

void RankOps::ReportGap(const OpContext& context, BufferId buffer, int64_t bytes) {
  if (bytes == 0) return;
  CountMemory(plan::MemoryCategory::kOther, bytes);
  rank_context_.sink->OnOtherMemory(context,
                                    {plan::MemoryCategory::kOther, bytes, MonotonicNs(), buffer});
}

BufferId RankOps::Find(const OpContext& context, const std::vector<BufferId>& ids,
                       BufferKind kind) {
  const auto found = std::find_if(ids.begin(), ids.end(),
                                  [&](BufferId id) { return context.buffer(id).kind == kind; });
  return found == ids.end() ? plan::kNone : *found;
}

std::byte* RankOps::MemoryOf(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  if (buffer.slot != plan::kNone) {
    return static_cast<std::byte*>(slots_.at(buffer.slot).mutable_data_ptr());
  }
  if (!buffer.persistent) return BlockOf(id);
  ShardedUnit& unit = units_[static_cast<size_t>(buffer.unit)];
  const auto data = [](const at::Tensor& tensor) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr());
  };
  if (buffer.kind == BufferKind::kUnsharded) return data(unit.whole_parameters());
  if (buffer.kind == BufferKind::kGradient) return data(unit.whole_gradient());
  if (buffer.kind == BufferKind::kParameterShard && unit.device_shard().defined()) {
    return data(unit.device_shard());
  }
  const bool is_gradient = plan::TraitsOf(buffer.kind).kept_as == plan::KeptAs::kGradientShard;
  return data(is_gradient ? unit.gradient() : unit.parameters());
}

UnitMemory RankOps::GradientMemory(const OpContext& context, BufferId id) {
  const bool is_sum = context.buffer(id).kind == BufferKind::kAccumulatedGradient;
  return UnitMemoryOf(context, id, is_sum ? job_->reduce : job_->model.dtype);
}

UnitMemory RankOps::UnitMemoryOf(const OpContext& context, BufferId id, plan::DType dtype) {
  const bool is_on_host =
      plan::MemoryCategoryOf(context.buffer(id).kind) == plan::MemoryCategory::kHost;
  return {MemoryOf(context, id), model::ScalarTypeOf(dtype),
          is_on_host ? at::Device(at::kCPU) : device_};
}

void RankOps::Guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    throw std::runtime_error(std::string(error.what_without_backtrace()) +
                             "; lower train.batch or model.dim, prefetch less, or use more GPUs");
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  } catch (const transport::TransportTimeout& error) {
    throw executor::OtherRankError(error.what());
  }
}

void RankOps::CheckGradientNorm(double norm) {
  if (std::isfinite(norm)) return;
  throw std::runtime_error("the gradient is not finite: lower train.lr, or use fp32");
}

void RankOps::Dispatch(const OpContext& context) {
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
    case OpKind::kCopyToDevice:
    case OpKind::kCopyToHost:
      return CopyAcross(context);
    case OpKind::kCopyOut:
      return CopyOut(context);
    case OpKind::kAccumulate:
      return Accumulate(context);
    case OpKind::kAllGather:
      return AllGather(context);
    case OpKind::kReduceScatter:
      return ReduceScatter(context);
    case OpKind::kAllReduce:
    case OpKind::kReduce:
      return AllReduce(context);
    case OpKind::kBroadcast:
      return Broadcast(context);
    case OpKind::kScatter:
      return Scatter(context);
    case OpKind::kGather:
      return Gather(context);
    case OpKind::kSend:
    case OpKind::kReceive:
      return Exchange(context);
    case OpKind::kForward:
    case OpKind::kNormForward:
    case OpKind::kRecompute:
      return Forward(context);
    case OpKind::kBackward:
    case OpKind::kNormBackward:
    case OpKind::kWeightBackward:
      return Backward(context);
    case OpKind::kReshard:
    case OpKind::kRelease:
      return;  // the executor frees
    case OpKind::kUnscale:
      return Unscale(context);
    case OpKind::kGradNorm:
      return GradNorm(context);
    case OpKind::kOptimizer:
      return Optimizer(context);
  }
}

// Of a batch of held-out data each place has as many as a step gives it.
std::vector<int64_t> RankOps::HeldOutSamplesOf(const OpContext& context, int place) const {
  const int64_t batch = job_->training.batch;
  const int64_t before = place * job_->training.micro_batches + context.op().micro_batch;
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < batch; ++i) {
    job_->held_out->Append(count_.held_out.first + before * batch + i, count_.held_out.end,
                           &samples);
  }
  return samples;
}

std::vector<int64_t> RankOps::SamplesOf(const OpContext& context, int place) {
  if (IsEvaluation(context)) return HeldOutSamplesOf(context, place);
  const int64_t batch = job_->training.batch;
  const std::vector<int64_t> chosen = sampler_.Samples(context.step, place);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < batch; ++i) {
    const auto index = static_cast<size_t>(context.op().micro_batch * batch + i);
    model::AppendSample(*job_->corpus, chosen[index], job_->model.seq, &samples);
  }
  return samples;
}

model::TokenBatch RankOps::TokensIn(BufferId batch) {
  const int64_t count = At(batch).bytes / static_cast<int64_t>(sizeof(int64_t));
  const at::Tensor both = FlatView({BlockOf(batch), at::kLong, device_}, 0, count).view({2, -1});
  return {both.select(0, 0), both.select(0, 1)};
}

void RankOps::KeepBatch(const OpContext& context, const std::vector<int64_t>& samples) {
  if (!job_->keep_batches || IsEvaluation(context)) return;
  kept_batches_.resize(static_cast<size_t>(context.step) + 1);
  std::vector<int64_t>& kept = kept_batches_.back();
  kept.insert(kept.end(), samples.begin(), samples.end());
}

// The rank's own, or one after the other those of all ranks, to which they are scattered.
void RankOps::LoadBatch(const OpContext& context) {
  const BufferId id = context.op().writes.front();
  const bool is_own = context.buffer(id).kind == BufferKind::kBatch;
  const int own = plan::PlaceOf(layout_.mesh, plan::kDataDimensions, rank_).place;
  const int num_places = is_own ? 1 : layout_.mesh.SizeOf(plan::kDataDimensions);
  std::vector<int64_t> tokens(static_cast<size_t>(At(id).bytes) / sizeof(int64_t));
  const size_t count = tokens.size() / static_cast<size_t>(num_places);
  for (int place = 0; place < num_places; ++place) {
    const std::vector<int64_t> samples = SamplesOf(context, is_own ? own : place);
    model::MakeTokenBatch(samples, job_->model.seq,
                          std::span(tokens).subspan(static_cast<size_t>(place) * count, count),
                          part_);
    if (is_own) KeepBatch(context, samples);
  }
  // Pageable memory: a GPU's host waits for this copy, on a stream that has nothing else to do.
  const auto all = static_cast<int64_t>(tokens.size());
  FlatView({BlockOf(id), at::kLong, device_}, 0, all)
      .copy_(at::from_blob(tokens.data(), {all}, at::TensorOptions(at::kLong)));
  if (is_own) At(id).tokens = TokensIn(id);
}

}  // namespace shardscope::runtime
