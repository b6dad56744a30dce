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

// The buffer of `segment` among those that an op reads.
BufferId FindRead(const OpContext& context, BufferKind kind, int32_t segment) {
  for (const BufferId id : context.op().reads) {
    const plan::Buffer& buffer = context.buffer(id);
    if (buffer.kind == kind && buffer.segment == segment) return id;
  }
  return plan::kNone;
}

// What a forward keeps in this buffer.
plan::Keeps KeepsIn(const OpContext& context, const plan::Buffer& buffer) {
  const plan::Segment& segment = context.schedule->segments[static_cast<size_t>(buffer.segment)];
  if (buffer.bytes == segment.activation_bytes) return plan::Keeps::kAll;
  return buffer.bytes == segment.output_bytes ? plan::Keeps::kOutput : plan::Keeps::kProducts;
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
  for (int32_t unit = 0; unit < std::ssize(layout_.units); ++unit) {
    units_.push_back(MakeUnit(layout_, unit, rank_, job_->state_dtypes()));
    units_.back().Initialize(*source);
    units_.back().MoveTo(device_);
  }
  if (IsOffloaded(layout_)) LeaveHostMemory();
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
  if (IsOffloaded(layout_)) LeaveHostMemory();
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

void RankOps::BeginStep(double learning_rate) {
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
  BeginStep(0);
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
  const bool is_gradient =
      buffer.kind == BufferKind::kGradientShard || buffer.kind == BufferKind::kHostGradientShard;
  return data(is_gradient ? unit.gradient() : unit.parameters());
}

UnitMemory RankOps::GradientMemory(const OpContext& context, BufferId id) {
  const bool is_sum = context.buffer(id).kind == BufferKind::kAccumulatedGradient;
  return UnitMemoryOf(context, id, is_sum ? job_->reduce : job_->model.dtype);
}

UnitMemory RankOps::UnitMemoryOf(const OpContext& context, BufferId id, plan::DType dtype) {
  return {MemoryOf(context, id), model::ScalarTypeOf(dtype), device_};
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
  const std::vector<int64_t> chosen =
      sampler_.Samples(context.step, {place, layout_.mesh.SizeOf(plan::kDataDimensions)});
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

void RankOps::Cast(const OpContext& context) {
  const plan::Op& op = context.op();
  const int64_t elements = LayoutOf(op.unit).shard_elements();
  FlatView(UnitMemoryOf(context, op.writes.front(), job_->model.dtype), 0, elements)
      .copy_(FlatView(UnitMemoryOf(context, op.reads.front(), job_->master), 0, elements));
}

// Between the host's memory and the rank's, at the speed of the link between them: the bytes move,
// and the op ends no earlier than the link would.
void RankOps::CopyAcross(const OpContext& context) {
  const plan::Op& op = context.op();
  const int64_t started_ns = MonotonicNs();
  const plan::Buffer& target = context.buffer(op.writes.front());
  int64_t bytes = target.bytes;
  // A copy that stays is renewed: what is not trained has not changed.
  const bool renews = op.kind == OpKind::kCopyToDevice && target.persistent;
  if (renews) {
    const bool is_whole = target.kind == BufferKind::kUnsharded;
    bytes = GradientLayout(op.unit).shard_elements() *
            plan::BytesOf(is_whole ? job_->model.dtype : job_->master);
  }
  if (target.kind == BufferKind::kUnsharded) {
    RenewOwnRows(context);
  } else {
    const auto bytes_at = [&](BufferId id) {
      return FlatView({MemoryOf(context, id), at::kByte, device_}, 0, bytes);
    };
    bytes_at(op.writes.front()).copy_(bytes_at(op.reads.front()));
  }
  std::optional<transport::Link>& link =
      op.kind == OpKind::kCopyToDevice ? host_links_.to_device : host_links_.to_host;
  constexpr int kRank[] = {0};
  if (link) SleepUntilNs(link->Reserve(kRank, started_ns, bytes));
}

// Of whole parameters: what an update has changed.
void RankOps::RenewOwnRows(const OpContext& context) {
  const plan::Op& op = context.op();
  const ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const std::vector<at::Tensor> slots =
      SlotsOf(GradientLayout(op.unit), layout_.ShardIndexOf(rank_),
              UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
  for (size_t index = 0; index < slots.size(); ++index) {
    slots[index].copy_(unit.SliceOf(index).parameters);
  }
}

// Own shard into its slot of an all-gather output or of whole parameters (cast on the way), or the
// gradient into a rank-major reduce-scatter input. The forms of memory are those of sharded_unit.h.
void RankOps::CopyIn(const OpContext& context) {
  const plan::Op& op = context.op();
  ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const BufferId target = op.writes.front();
  const BufferId waiting = Find(context, op.reads, BufferKind::kPostForwardShard);
  if (waiting != plan::kNone || context.buffer(target).kind == BufferKind::kPostForwardShard) {
    return CopyPostForwardShard(context);
  }
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    const UnitMemory memory = UnitMemoryOf(context, target, job_->model.dtype);
    const int64_t elements = unit.layout().shard_elements();
    FlatView(memory, elements * layout_.ShardIndexOf(rank_) * memory.element_bytes(), elements)
        .copy_(FlatView(UnitMemoryOf(context, op.reads.front(), job_->master), 0, elements));
    return;
  }
  if (context.buffer(target).kind == BufferKind::kUnsharded) return RenewOwnRows(context);
  SHARDSCOPE_CHECK(context.buffer(target).kind == BufferKind::kReduceScatterInput);
  const BufferId source = op.reads.front();
  const UnitMemory input = UnitMemoryOf(context, target, job_->reduce);
  if (context.buffer(source).kind == BufferKind::kGradientShard) {
    FlatView(input, 0, GradientLayout(op.unit).shard_elements()).copy_(unit.gradient());
    return;
  }
  PackRankMajor(GradientLayout(op.unit), GradientMemory(context, source), input);
}

// Between two gathers of a unit: several ranks' shards, one after the other, out of its parameters
// and into their slot of the next all-gather's output, which fewer ranks fill.
void RankOps::CopyPostForwardShard(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = LayoutOf(op.unit);
  const UnitMemory from = UnitMemoryOf(context, op.reads.front(), job_->model.dtype);
  const UnitMemory to = UnitMemoryOf(context, op.writes.front(), job_->model.dtype);
  const bool is_whole = context.buffer(op.reads.front()).kind == BufferKind::kUnsharded;
  const int64_t part_bytes = At(is_whole ? op.writes.front() : op.reads.front()).bytes;
  const int64_t whole_bytes = layout.num_ranks() * layout.shard_elements() * to.element_bytes();
  const int64_t place = layout_.ShardIndexOf(rank_) % (whole_bytes / part_bytes);
  if (is_whole) {
    const int64_t ranks = part_bytes / (layout.shard_elements() * to.element_bytes());
    return PackRanks(layout, from, place * ranks, ranks, to);
  }
  const int64_t elements = part_bytes / to.element_bytes();
  FlatView(to, place * part_bytes, elements).copy_(FlatView(from, 0, elements));
}

void RankOps::CopyOut(const OpContext& context) {
  const plan::Op& op = context.op();
  UnpackRankMajor(LayoutOf(op.unit), UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                  UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
}

// The gradient into the one that is kept: overwrites it, or adds where the op reads it too.
void RankOps::Accumulate(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId source = op.reads.front();
  const BufferId target = op.writes.front();
  const bool adds = op.reads.size() > 1;
  const BufferKind kind = context.buffer(target).kind;
  if (kind == BufferKind::kGradient || kind == BufferKind::kAccumulatedGradient) {
    Take(GradientLayout(op.unit), GradientMemory(context, source), adds,
         GradientMemory(context, target));
    return;
  }
  if (kind == BufferKind::kReduceScatterOutput) {
    const int64_t elements = GradientLayout(op.unit).shard_elements();
    FlatView(UnitMemoryOf(context, target, job_->reduce), 0, elements)
        .add_(FlatView(UnitMemoryOf(context, source, job_->reduce), 0, elements));
    return;
  }
  // no_shard without another reduce dtype: the gradient itself was all-reduced.
  const bool is_packed = context.buffer(source).kind != BufferKind::kGradient;
  TakeReduced(UnitMemoryOf(context, source, is_packed ? job_->reduce : job_->model.dtype),
              is_packed, adds, &units_[static_cast<size_t>(op.unit)]);
  // As a rule the reduction makes a mean of the sum.
  if (!reduces_ && op.micro_batch + 1 == job_->training.micro_batches) {
    units_[static_cast<size_t>(op.unit)].ScaleGradient(GradientScale());
  }
}

// Views without padding, in whatever form the parameters are: gathered (unsharded form), or with
// no_shard the packed shard itself, cast or not.
std::vector<at::Tensor> RankOps::ParameterViews(const OpContext& context, int32_t segment) {
  return Views(context, segment, context.op().reads, /*is_trained=*/false,
               {BufferKind::kUnsharded, BufferKind::kCastShard, BufferKind::kParameterShard});
}

std::vector<at::Tensor> RankOps::GradientViews(const OpContext& context, int32_t segment) {
  return Views(context, segment, context.op().writes, /*is_trained=*/true,
               {BufferKind::kGradient, BufferKind::kGradientShard});
}

// Of each parameter of the segment, in its unit's buffer among `ids` of one of these kinds, of
// which the first is in unsharded form and the others are packed. `is_trained`: undefined views of
// those that are frozen.
std::vector<at::Tensor> RankOps::Views(const OpContext& context, int32_t segment,
                                       const std::vector<BufferId>& ids, bool is_trained,
                                       std::initializer_list<BufferKind> kinds) {
  std::vector<at::Tensor> views;
  for (const UnitParameter& parameter : segment_parameters_[static_cast<size_t>(segment)]) {
    const UnitLayout& layout = LayoutOf(parameter.unit);
    if (is_trained && layout.parameters()[parameter.index].parameter.is_frozen) {
      views.emplace_back();
      continue;
    }
    const auto found = std::ranges::find_if(ids, [&](BufferId id) {
      const plan::Buffer& buffer = context.buffer(id);
      return buffer.unit == parameter.unit && std::ranges::find(kinds, buffer.kind) != kinds.end();
    });
    SHARDSCOPE_CHECK(found != ids.end());
    views.push_back(ParameterView(layout, parameter.index,
                                  UnitMemoryOf(context, *found, job_->model.dtype),
                                  context.buffer(*found).kind != *kinds.begin()));
  }
  return views;
}

model::TokenBatch RankOps::TokensOf(const OpContext& context) {
  const BufferId batch = Find(context, context.op().reads, BufferKind::kBatch);
  if (batch == plan::kNone) return {};
  model::TokenBatch tokens = At(batch).tokens;
  if (!IsLastSegment(context)) return tokens;
  if (IsEvaluation(context)) {
    // A step's loss is the mean of its micro-batches': so that of an evaluation is a sum.
    tokens.mean_over = 1 / static_cast<double>(job_->training.micro_batches);
  } else if (job_->corpus->is_masked) {
    tokens.mean_over = LossRows(context.step);
  }
  return tokens;
}

// The mean over ranks and micro-batches, which steps take, of sums divided by this is the mean over
// all targets of the step that count. Each rank finds their number in the data.
double RankOps::LossRows(int64_t step) {
  if (count_.step != step) {
    const int places = layout_.mesh.SizeOf(plan::kDataDimensions);
    count_.targets =
        model::CountedTargets(*job_->corpus, &count_.sampler, step, places, job_->model.seq);
    count_.step = step;
  }
  outcome_.counts = count_.targets > 0;
  const int64_t shares =
      layout_.mesh.SizeOf(plan::kDataDimensions) * job_->training.micro_batches * part_.count;
  // Where nothing counts, all sums are 0.
  return static_cast<double>(std::max<int64_t>(1, count_.targets)) / static_cast<double>(shares);
}

// What the segment before has left, here or on another rank; none of the first segment.
at::Tensor RankOps::InputOf(const OpContext& context) {
  const BufferId received = Find(context, context.op().reads, BufferKind::kReceivedActivation);
  if (received != plan::kNone) return RowsIn(context, received);
  for (const BufferKind kind : {BufferKind::kActivation, BufferKind::kRecomputed}) {
    const BufferId before = FindRead(context, kind, context.op().segment - 1);
    if (before != plan::kNone) return At(before).saved.output;
  }
  return {};
}

void RankOps::Forward(const OpContext& context) {
  const plan::Op& op = context.op();
  const model::TokenBatch tokens = TokensOf(context);
  const at::Tensor input = InputOf(context);
  const BufferId norm = Find(context, op.reads, BufferKind::kNormOutput);
  const plan::Buffer& result = context.buffer(op.writes.front());
  const int64_t activation_bytes =
      context.schedule->segments[static_cast<size_t>(op.segment)].activation_bytes;
  const bool recomputes = op.kind == OpKind::kRecompute;
  const model::SegmentModel::ForwardArgs args = {
      .parameters = ParameterViews(context, op.segment),
      .input = input,
      .tokens = tokens,
      .adds_input = IsFirstTensor(),
      .part = part_,
      .norm = norm == plan::kNone ? nullptr : &At(norm).saved.tensors,
      .needs_output = !recomputes || result.bytes == activation_bytes};
  model::Saved& saved = At(op.writes.front()).saved;
  if (result.kind == BufferKind::kNormOutput) {
    saved = model_.NormForward(args);
    return;
  }
  const BufferId products =
      recomputes ? FindRead(context, BufferKind::kActivation, op.segment) : plan::kNone;
  if (products != plan::kNone) {
    saved = model_.Recompute(op.segment, args, At(products).saved);
    return;
  }
  const BufferId parts = Find(context, op.writes, BufferKind::kPartialOutput);
  if (parts == plan::kNone) {
    saved = model_.Forward(op.segment, args);
  } else {
    // What the sum of the parts is scattered into.
    const at::Tensor own = at::empty(input.sizes(), input.options());
    saved = model_.Forward(op.segment, args);
    At(parts).tensor = std::exchange(saved.output, own);
  }
  if (recomputes) return;
  model_.Drop(op.segment, KeepsIn(context, result), args, &saved);
  // The last segment's output is the loss of this micro-batch, which all tensor ranks have, or each
  // has of its part.
  if (IsLastSegment(context) && (IsFirstTensor() || part_.count > 1)) {
    outcome_.tokens += tokens.targets.numel();
    AddLoss(context, saved.output);
  }
}

model::Saved RankOps::SavedOf(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId kept = FindRead(context, BufferKind::kActivation, op.segment);
  const BufferId recomputed = FindRead(context, BufferKind::kRecomputed, op.segment);
  model::Saved saved = At(kept == plan::kNone ? recomputed : kept).saved;
  if (kept != plan::kNone && recomputed != plan::kNone) {
    const std::vector<at::Tensor>& between = At(recomputed).saved.tensors;
    for (size_t index = 0; index < between.size(); ++index) {
      if (between[index].defined()) saved.tensors[index] = between[index];
    }
  }
  if (const BufferId norm = Find(context, op.reads, BufferKind::kNormOutput); norm != plan::kNone) {
    const std::vector<at::Tensor>& before = At(norm).saved.tensors;
    saved.tensors.insert(saved.tensors.begin(), before.begin(), before.end());
  }
  return saved;
}

void RankOps::WeightBackward(const OpContext& context) {
  const plan::Op& op = context.op();
  std::vector<at::Tensor> gradients = GradientViews(context, op.segment);
  const BufferId hidden = Find(context, op.reads, BufferKind::kHiddenGradient);
  model::SegmentModel::WeightBackward(SavedOf(context), At(hidden).tensor, gradients, &gradients);
}

void RankOps::Backward(const OpContext& context) {
  if (context.op().kind == OpKind::kWeightBackward) return WeightBackward(context);
  const int32_t segment = context.op().segment;
  const std::vector<BufferId>& reads = context.op().reads;
  const at::Tensor input = InputOf(context);
  const BufferId received = Find(context, reads, BufferKind::kReceivedGradient);
  const BufferId incoming = Find(context, reads, BufferKind::kActivationGradient);
  at::Tensor output_gradient;
  if (received != plan::kNone) {
    output_gradient = RowsIn(context, received);
  } else if (incoming != plan::kNone) {
    output_gradient = At(incoming).tensor;
  }
  const BufferId outgoing = Find(context, context.op().writes, BufferKind::kActivationGradient);
  const BufferId to_norm = Find(context, context.op().writes, BufferKind::kNormGradient);
  const std::vector<at::Tensor> parameters = ParameterViews(context, segment);
  std::vector<at::Tensor> gradients = GradientViews(context, segment);
  const model::Saved saved = SavedOf(context);
  const BufferId hidden = Find(context, context.op().writes, BufferKind::kHiddenGradient);
  const model::TokenBatch tokens = TokensOf(context);
  const model::SegmentModel::BackwardArgs args = {
      .parameters = parameters,
      .input = input,
      .saved = saved,
      .output_gradient = output_gradient,
      .tokens = tokens,
      .loss_parts = part_.count,
      .loss_scale = scaler_.scale,
      .hidden_gradient = hidden == plan::kNone ? nullptr : &At(hidden).tensor,
      .needs_input_gradient = outgoing != plan::kNone || to_norm != plan::kNone};
  if (to_norm != plan::kNone) {
    At(to_norm).tensor = model_.BackwardToNorm(segment, args, &gradients);
    return;
  }
  const BufferId from_norm = Find(context, reads, BufferKind::kNormGradient);
  at::Tensor input_gradient =
      from_norm == plan::kNone
          ? model_.Backward(segment, args, &gradients)
          : model_.NormBackward(args, At(from_norm).tensor, &gradients.front());
  if (outgoing != plan::kNone) At(outgoing).tensor = std::move(input_gradient);
}

}  // namespace shardscope::runtime
