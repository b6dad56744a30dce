#include "engine/plan/builders/step.h"

#include <algorithm>
#include <utility>

#include "engine/plan/state.h"
#include "trace/base/check.h"

namespace shardscope::plan {
namespace {

// Where no backward follows, the output goes on to the next segment and nothing else is kept.
std::vector<Keeps> KeepsOf(const ModelDescription& model, const Policy& policy) {
  std::vector<Keeps> keeps = WhatForwardKeeps(model, policy.checkpointing);
  std::fill_n(keeps.begin(), FirstTrainedSegment(model.segments), Keeps::kOutput);
  return keeps;
}

// Where a unit has its buffer of a kind that ranks keep.
BufferId UnitState::*KeptIn(BufferKind kind) {
  switch (TraitsOf(kind).kept_as) {
    case KeptAs::kParameterShard:
      return &UnitState::parameter_shard;
    case KeptAs::kHostMaster:
      return &UnitState::host_master;
    case KeptAs::kWholeParameters:
      return &UnitState::whole_parameters;
    case KeptAs::kWholeGradient:
      return &UnitState::whole_gradient;
    case KeptAs::kGradientShard:
      return &UnitState::gradient_shard;
    case KeptAs::kOptimizerState:
      return &UnitState::optimizer_state;
    case KeptAs::kParameterSlot:
      return &UnitState::parameter_slot;
    case KeptAs::kGradientSlot:
      return &UnitState::gradient_slot;
    case KeptAs::kNone:
      break;
  }
  SHARDSCOPE_CHECK(false);
  return nullptr;
}

}  // namespace

StepBuilder::StepBuilder(const ModelDescription& model, const Policy& policy,
                         std::vector<Stream> streams)
    : model_(model),
      policy_(policy),
      first_trained_(FirstTrainedSegment(model.segments)),
      keeps_(KeepsOf(model, policy)),
      pipeline_ranks_(policy.mesh.size(MeshDimension::kPipeline)) {
  schedule_.mesh = policy.mesh;
  schedule_.num_micro_batches = policy.micro_batches;
  schedule_.streams = std::move(streams);
  if (HasPipeline()) {
    pipeline_.stream = static_cast<StreamIndex>(schedule_.streams.size());
    for (const StreamRole role : {StreamRole::kSendActivation, StreamRole::kReceiveActivation,
                                  StreamRole::kSendGradient, StreamRole::kReceiveGradient}) {
      schedule_.streams.push_back({std::string(Name(role)), role});
    }
  }
  if (policy.mesh.size(MeshDimension::kTensor) > 1) {
    tensor_.stream = static_cast<StreamIndex>(schedule_.streams.size());
    schedule_.streams.push_back({std::string(Name(StreamRole::kTensor)), StreamRole::kTensor});
  }
  if (policy.updates_on_host()) {
    offload_stream_ = static_cast<StreamIndex>(schedule_.streams.size());
    for (const StreamRole role :
         {StreamRole::kToDevice, StreamRole::kToHost, StreamRole::kHostOptimizer}) {
      schedule_.streams.push_back({std::string(Name(role)), role});
    }
  }
  if (has_replicas()) schedule_.streams.push_back({"all_reduce", StreamRole::kAllReduce});
  AddCommunicators();
  schedule_.segments = model.segments;
  schedule_.units = model.units;
  schedule_.optimizer_state = policy.update.state;
  states_.resize(model.units.size());
  spans_.resize(model.units.size());
  stages_.resize(static_cast<size_t>(NumStages(model.segments)));
  num_in_flight_.resize(stages_.size());
  for (int32_t segment = 0; segment <= last_segment(); ++segment) {
    Span& stage = stages_[static_cast<size_t>(model.segments[static_cast<size_t>(segment)].stage)];
    if (stage.first == kNone) stage.first = segment;
    stage.last = segment;
    for (const int32_t unit_index : UnitsOf(segment)) {
      Span& span = spans_[static_cast<size_t>(unit_index)];
      if (span.first == kNone) span.first = segment;
      span.last = segment;
      if (segment >= first_trained_ && span.first_backward == kNone) span.first_backward = segment;
    }
  }
}

// One group of all ranks unless the mesh has more than one dimension.
void StepBuilder::AddCommunicators() {
  const Strategy& strategy = *policy_.strategy;
  std::vector<Communicator>& all = schedule_.communicators;
  const MeshDimensions shard = Only(MeshDimension::kShard);
  if (strategy.Uses(MeshDimension::kShard)) {
    const bool is_alone = !has_replicas() && !HasPipeline() && !HasTensor();
    all = {{"shard", is_alone ? kAllDimensions : shard}};
    if (policy_.num_communicators == 2) all.push_back({"reduce", all.front().dimensions});
    reduce_communicator_ = norm_communicator_ = policy_.num_communicators - 1;
  }
  if (HasPipeline()) {
    const MeshDimensions pipeline = Only(MeshDimension::kPipeline);
    pipeline_.communicator = static_cast<CommunicatorIndex>(all.size());
    all.push_back({"activation", pipeline});
    all.push_back({"gradient", pipeline});
  }
  if (HasTensor()) {
    tensor_.communicator = static_cast<CommunicatorIndex>(all.size());
    all.push_back({"tensor", Only(MeshDimension::kTensor)});
  }
  if (HasPipeline() || HasTensor()) {
    unsigned different = 0;  // parts of the gradient
    if (HasPipeline()) different |= Only(MeshDimension::kPipeline);
    if (HasTensor()) different |= Only(MeshDimension::kTensor);
    if (strategy.shards_optimizer && shard_ranks() > 1) different |= shard;
    norm_communicator_ = static_cast<CommunicatorIndex>(all.size());
    all.push_back({"norm", static_cast<MeshDimensions>(different)});
  }
  if (policy_.post_forward_ranks > 0) {
    post_forward_communicator_ = static_cast<CommunicatorIndex>(all.size());
    all.push_back({"post_forward", shard, policy_.post_forward_ranks});
  }
  if (strategy.Uses(MeshDimension::kReplicate)) {
    if (!strategy.Uses(MeshDimension::kShard)) {
      reduce_communicator_ = static_cast<CommunicatorIndex>(all.size());
    }
    all.push_back({"replicate", Only(MeshDimension::kReplicate)});
  }
}

Schedule StepBuilder::Build(int32_t place) {
  place_ = place;
  AddPersistentBuffers();
  Emit(MakeOp(OpKind::kControl, kNone, kHostStream));
  in_flight_.assign(static_cast<size_t>(policy_.micro_batches),
                    {.activations = std::vector<BufferId>(model_.segments.size(), kNone),
                     .norms = std::vector<BufferId>(model_.segments.size(), kNone),
                     .recomputed = std::vector<BufferId>(model_.segments.size(), kNone),
                     .sends = std::vector<OpIndex>(model_.segments.size(), kNone)});
  const std::vector<StageRun> order =
      StageOrder(policy_, static_cast<int32_t>(stages_.size()), place);
  for (size_t at = 0; at < order.size(); ++at) {
    Enter(order[at]);
    if (now_.phase == Phase::kForward) {
      Forward();
    } else {
      Backward(at + 1 < order.size() ? &order[at + 1] : nullptr);
    }
  }
  now_.micro_batch = kNone;
  if (AddsUpWholeParameters()) AddUpWholeParameters();
  now_.phase = Phase::kOptimizer;
  ReleaseSentGradient();
  Optimizer();
  schedule_.programs.push_back(std::move(program_));
  return std::move(schedule_);
}

bool StepBuilder::ReshardsAfterForward(int32_t index) const {
  // The root is needed first in backward, so freeing it would only cost a gather.
  return policy_.strategy->reshards_after_forward && policy_.reshard_after_forward &&
         !unit(index).is_root;
}

// In a pipeline without resharding it stays as long as a backward is still to come. FSDP1's
// no_sync() keeps what it would not free after the forward (_runtime_utils.py:
// _should_free_in_backward).
bool StepBuilder::ReshardsAfterBackward(int32_t index) const {
  if (last_micro_batch()) return ReshardsAfterForward(index) || !IsInFlight();
  if (!policy_.accumulation.reshards) return false;
  if (ReshardsAfterForward(index)) return true;
  const bool reshards = policy_.strategy->reshards_after_forward && policy_.reshard_after_forward;
  const bool keeps = policy_.preset == Preset::kFsdp1 && !ReducesGradients() && !reshards;
  return !keeps && !IsInFlight();
}

int64_t StepBuilder::ShardBytes(int32_t index, DType dtype) const {
  return PaddedShardElements(unit(index), shard_ranks()) * BytesOf(dtype);
}

int64_t StepBuilder::UnshardedBytes(int32_t index, DType dtype) const {
  return shard_ranks() * ShardBytes(index, dtype);
}

int64_t StepBuilder::TrainedShardBytes(int32_t index, DType dtype) const {
  return PaddedShardElements(TrainedPart(unit(index)), shard_ranks()) * BytesOf(dtype);
}

int64_t StepBuilder::TrainedBytes(int32_t index, DType dtype) const {
  return shard_ranks() * TrainedShardBytes(index, dtype);
}

Op StepBuilder::MakeOp(OpKind kind, int32_t unit_index, StreamIndex stream) const {
  Op op;
  op.kind = kind;
  op.phase = now_.phase;
  op.micro_batch = now_.micro_batch;
  op.unit = unit_index;
  op.stream = stream;
  return op;
}

Op StepBuilder::MakeCollective(OpKind kind, int32_t unit_index, StreamIndex stream,
                               DType dtype) const {
  Op op = MakeOp(kind, unit_index, stream);
  // All-gathers on the first, all that reduces on the last.
  op.communicator = TraitsOf(kind).reduces ? reduce_communicator_ : kShardCommunicator;
  op.dtype = dtype;
  op.payload_bytes =
      TraitsOf(kind).reduces ? TrainedBytes(unit_index, dtype) : UnshardedBytes(unit_index, dtype);
  op.wire_bytes = WireBytes(kind, op.payload_bytes, schedule_.GroupSize(op.communicator));
  return op;
}

BufferId StepBuilder::NewBuffer(BufferKind kind, int32_t unit_index, int64_t bytes) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.unit = unit_index;
  buffer.micro_batch = now_.micro_batch;
  buffer.bytes = bytes;
  program_.buffers.push_back(buffer);
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

BufferId StepBuilder::NewSegmentBuffer(BufferKind kind, int32_t segment, int64_t bytes) {
  const BufferId id = NewBuffer(kind, kNone, bytes);
  program_.buffers.back().segment = segment;
  return id;
}

OpIndex StepBuilder::Emit(Op op) {
  program_.ops.push_back(std::move(op));
  return static_cast<OpIndex>(program_.ops.size()) - 1;
}

void StepBuilder::AddPersistentBuffers() {
  if (!KeepsState()) return;
  program_.buffers = StateBuffers(model_, policy_, place_);
  for (BufferId id = 0; id < static_cast<BufferId>(program_.buffers.size()); ++id) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    if (buffer.kind == BufferKind::kParameterSlot || buffer.kind == BufferKind::kGradientSlot) {
      AddSlot(id);
      continue;
    }
    UnitState& unit_state = state(buffer.unit);
    unit_state.*KeptIn(buffer.kind) = id;
    const bool is_on_host = buffer.kind == BufferKind::kHostParameterShard;
    if (is_on_host && IsBroughtFromHost(unit(buffer.unit), policy_)) {
      unit_state.parameter_shard = id;
    }
    const bool is_known = !trained_units_.empty() && trained_units_.back() == buffer.unit;
    if (HoldsTrainedPart(buffer.kind) && !is_known) trained_units_.push_back(buffer.unit);
  }
}

// The next slot of its kind.
void StepBuilder::AddSlot(BufferId id) {
  const auto slot_of = KeptIn(program_.buffers[static_cast<size_t>(id)].kind);
  int32_t first = 0;
  while (state(first).*slot_of != kNone) ++first;
  for (int32_t unit_index = first; unit_index < num_units(); unit_index += kNumSlots) {
    state(unit_index).*slot_of = id;
  }
}

// The first stage reads the tokens, the last one the targets of its loss.
bool StepBuilder::NeedsBatch() const {
  return Now().batch == kNone && (Stage().first == 0 || Stage().last == last_segment());
}

bool StepBuilder::FreesBatch(int32_t segment) const {
  const bool is_last_use = Stage().first == 0 && segment == first_trained_;
  return is_last_use || (HasPipeline() && segment == last_segment());
}

void StepBuilder::LoadBatch(BufferId batch) {
  Op load = MakeOp(OpKind::kLoadBatch, kNone, kHostStream);
  load.allocates = load.writes = {batch};
  Emit(std::move(load));
}

void StepBuilder::WaitInCompute(StreamIndex stream) {
  compute_waits_.push_back({DependencyKind::kStream, stream});
}

void StepBuilder::WaitFor(OpIndex op) {
  if (op != kNone) compute_waits_.push_back(AfterEvent(op));
}

void StepBuilder::PutInSlot(BufferId buffer, BufferId slot) {
  program_.buffers[static_cast<size_t>(buffer)].slot = slot;
}

void StepBuilder::Forward() {
  if (NeedsBatch()) {
    Now().batch = NewBuffer(BufferKind::kBatch, kNone, model_.batch_bytes);
    LoadBatch(Now().batch);
  }
  ++num_in_flight_[static_cast<size_t>(now_.stage)];
  StartForward();
  ReceiveActivation();
  for (int32_t segment = Stage().first; segment <= Stage().last; ++segment) {
    for (const int32_t unit_index : UnitsOf(segment)) {
      if (SpanOf(unit_index).first == segment) PreForward(unit_index);
    }
    ForwardSegment(segment);
    for (const int32_t unit_index : UnitsOf(segment)) {
      if (SpanOf(unit_index).last == segment) PostForward(unit_index);
    }
  }
  if (Stage().last < last_segment()) SendActivation();
  EndForward();
}

StreamIndex StepBuilder::PipelineStream(OpKind kind) const {
  return pipeline_.stream + (now_.phase == Phase::kForward ? 0 : 2) +
         (kind == OpKind::kSend ? 0 : 1);
}

Op StepBuilder::MakeExchange(OpKind kind, int32_t boundary) const {
  const bool is_forward = now_.phase == Phase::kForward;
  // Activations go to the rank of the next stage, gradients back.
  const int32_t towards = is_forward == (kind == OpKind::kSend) ? 1 : pipeline_ranks_ - 1;
  Op op = MakeOp(kind, kNone, PipelineStream(kind));
  op.segment = boundary;
  op.communicator = pipeline_.communicator + (is_forward ? 0 : 1);
  op.peer = (place_ + towards) % pipeline_ranks_;
  op.dtype = policy_.param_dtype;
  op.payload_bytes = model_.segments[static_cast<size_t>(boundary)].output_bytes;
  op.wire_bytes = WireBytes(kind, op.payload_bytes, schedule_.GroupSize(op.communicator));
  return op;
}

BufferId StepBuilder::Receive(BufferKind kind, int32_t boundary) {
  Op op = MakeExchange(OpKind::kReceive, boundary);
  // A gradient is that of the next segment's input, as an activation gradient.
  const int32_t segment = boundary + (kind == BufferKind::kReceivedGradient ? 1 : 0);
  const BufferId buffer = NewSegmentBuffer(kind, segment, op.payload_bytes);
  op.allocates = op.writes = {buffer};
  compute_waits_.push_back(AfterEvent(Emit(std::move(op))));
  return buffer;
}

void StepBuilder::ReceiveActivation() {
  if (Stage().first == 0) return;
  const int32_t boundary = Stage().first - 1;
  BufferId& received = Now().activations[static_cast<size_t>(boundary)];
  if (received == kNone) received = Receive(BufferKind::kReceivedActivation, boundary);
}

// Two neighbours that both sent first would wait for each other, where a send keeps the host until
// it is received (NCCL without groups, ranks that share a GPU). So the one that sends a gradient
// asks for the next activation before that, unless this is sent only once the gradient is there.
void StepBuilder::ReceiveAhead(const StageRun& next) {
  if (next.phase != Phase::kForward || policy_.pipeline == PipelineSchedule::kOneByOne) return;
  const StageRun now = now_;
  Enter(next);
  ReceiveActivation();
  Enter(now);
}

void StepBuilder::SendActivation() {
  const int32_t boundary = Stage().last;
  Op op = MakeExchange(OpKind::kSend, boundary);
  op.reads = {Now().activations[static_cast<size_t>(boundary)]};
  op.dependencies = compute_waits_;  // for the sum of its parts
  op.dependencies.push_back(AfterStream(kComputeStream));
  Now().sends[static_cast<size_t>(boundary)] = Emit(std::move(op));
}

void StepBuilder::SendGradient() {
  ReleaseSentGradient();
  Op op = MakeExchange(OpKind::kSend, Stage().first - 1);
  op.reads = {activation_gradient_};
  op.dependencies = {AfterStream(kComputeStream)};
  sent_gradient_.buffer = activation_gradient_;
  sent_gradient_.send = Emit(std::move(op));
}

// Compute frees what it took, as late as it needs the memory again: the send is long over then.
void StepBuilder::ReleaseSentGradient() {
  if (sent_gradient_.buffer == kNone) return;
  Op op = MakeOp(OpKind::kRelease, kNone, kComputeStream);
  op.frees = {std::exchange(sent_gradient_.buffer, kNone)};
  op.dependencies = {AfterEvent(sent_gradient_.send)};
  Emit(std::move(op));
}

Op StepBuilder::MakeForward(OpKind kind, int32_t segment) {
  Op op = MakeOp(kind, kNone, kComputeStream);
  op.segment = segment;
  for (const int32_t unit_index : UnitsOf(segment)) {
    op.reads.push_back(state(unit_index).parameters);
  }
  if (segment > 0) op.reads.push_back(InputOf(segment));
  // The first segment reads the tokens, the last one the targets of its loss.
  if (segment == 0 || segment == last_segment()) op.reads.push_back(Now().batch);
  op.dependencies = std::exchange(compute_waits_, {});
  return op;
}

void StepBuilder::NormForward(OpKind kind, int32_t segment) {
  Op op = MakeForward(kind, segment);
  const BufferId norm = NewSegmentBuffer(BufferKind::kNormOutput, segment,
                                         model_.segments[static_cast<size_t>(segment)].norm_bytes);
  Now().norms[static_cast<size_t>(segment)] = norm;
  op.allocates = op.writes = {norm};
  Emit(std::move(op));
  Op gather = MakeShared(OpKind::kAllGather, segment);
  gather.reads = gather.writes = {norm};
  EmitShared(std::move(gather));
}

void StepBuilder::ForwardSegment(int32_t segment) {
  if (SharesSequence(segment)) NormForward(OpKind::kNormForward, segment);
  Op op = MakeForward(OpKind::kForward, segment);
  if (SharesSequence(segment)) op.reads.push_back(Now().norms[static_cast<size_t>(segment)]);
  op.frees = FreedByForward(segment);
  const BufferId activation =
      NewSegmentBuffer(BufferKind::kActivation, segment, KeptBytes(segment));
  Now().activations[static_cast<size_t>(segment)] = activation;
  op.allocates = op.writes = {activation};
  EmitWithSum(std::move(op), segment, true);
}

void StepBuilder::EmitWithSum(Op op, int32_t segment, bool needs_output) {
  const BufferId output = op.writes.front();
  if (!SharesSequence(segment) || !needs_output) {
    Emit(std::move(op));
    if (IsSplit(segment) && needs_output) ReduceParts(segment, output);
    return;
  }
  const BufferId parts =
      NewSegmentBuffer(BufferKind::kPartialOutput, segment,
                       MakeShared(OpKind::kReduceScatter, segment).payload_bytes);
  op.allocates.push_back(parts);
  op.writes.push_back(parts);
  Emit(std::move(op));
  ScatterParts(segment, parts, output, false);
}

Op StepBuilder::MakeShared(OpKind kind, int32_t segment) const {
  Op op = MakeOp(kind, kNone, tensor_.stream);
  op.segment = segment;
  op.communicator = tensor_.communicator;
  op.dtype = policy_.param_dtype;
  const int ranks = schedule_.GroupSize(op.communicator);
  op.payload_bytes = model_.segments[static_cast<size_t>(segment)].output_bytes;
  if (SharesSequence(segment)) op.payload_bytes *= ranks;
  op.wire_bytes = WireBytes(op.kind, op.payload_bytes, ranks);
  op.dependencies = {AfterStream(kComputeStream)};
  return op;
}

void StepBuilder::EmitShared(Op op) { compute_waits_.push_back(AfterEvent(Emit(std::move(op)))); }

// Megatron-LM (arXiv 1909.08053, section 3): forward the sum of outputs, backward that of the
// gradients of a norm's output, which each of them has made of its rows or columns.
void StepBuilder::ReduceParts(int32_t segment, BufferId buffer) {
  Op op = MakeShared(OpKind::kAllReduce, segment);
  op.reads = op.writes = {buffer};
  EmitShared(std::move(op));
}

void StepBuilder::ScatterParts(int32_t segment, BufferId parts, BufferId own, bool is_new) {
  Op op = MakeShared(OpKind::kReduceScatter, segment);
  op.reads = op.frees = {parts};
  op.writes = {own};
  if (is_new) op.allocates = {own};
  EmitShared(std::move(op));
}

void StepBuilder::Backward(const StageRun* next) {
  --num_in_flight_[static_cast<size_t>(now_.stage)];
  activation_gradient_ = kNone;
  const int32_t first = std::max(Stage().first, first_trained_);
  std::vector<Dependency> received;  // of the first backward, but not of what is recomputed for it
  if (Stage().last < first) {
    ReleaseForward();
  } else if (Stage().last < last_segment()) {
    activation_gradient_ = Receive(BufferKind::kReceivedGradient, Stage().last);
    received_gradient_ = {activation_gradient_, compute_waits_.back()};
    compute_waits_.pop_back();
    // Backward frees the output, which may still be under way.
    received = {received_gradient_.ready,
                AfterEvent(Now().sends[static_cast<size_t>(Stage().last)])};
  }
  for (int32_t segment = Stage().last; segment >= first; --segment) {
    PrepareBackward(segment);
    compute_waits_.insert(compute_waits_.begin(), received.begin(), received.end());
    received.clear();
    BackwardSegment(segment);
    const std::vector<int32_t>& units = UnitsOf(segment);
    for (auto unit_index = units.rbegin(); unit_index != units.rend(); ++unit_index) {
      if (SpanOf(*unit_index).first_backward == segment) PostBackward(*unit_index);
    }
  }
  for (int32_t segment = std::min(first - 1, Stage().last); segment >= Stage().first; --segment) {
    const std::vector<int32_t>& units = UnitsOf(segment);
    for (auto unit_index = units.rbegin(); unit_index != units.rend(); ++unit_index) {
      const bool is_at_end = SpanOf(*unit_index).first == segment && !HasBackward(*unit_index);
      if (is_at_end) PostBackward(*unit_index);
    }
  }
  if (Stage().first > first_trained_) {
    if (next != nullptr) ReceiveAhead(*next);
    SendGradient();
  }
  EndBackward();
}

void StepBuilder::ReleaseForward() {
  Op op = MakeOp(OpKind::kRelease, kNone, kComputeStream);
  op.frees = {Now().activations[static_cast<size_t>(Stage().last)]};
  op.dependencies = {AfterEvent(Now().sends[static_cast<size_t>(Stage().last)])};
  if (Stage().first == 0) op.frees.push_back(Now().batch);
  Emit(std::move(op));
}

Op StepBuilder::MakeBackward(OpKind kind, int32_t segment, BufferId input) {
  Op op = MakeOp(kind, kNone, kComputeStream);
  op.segment = segment;
  for (const int32_t unit_index : UnitsOf(segment)) {
    op.reads.push_back(states_[static_cast<size_t>(unit_index)].parameters);
  }
  const std::vector<BufferId> saved = SavedOf(segment);
  op.reads.insert(op.reads.end(), saved.begin(), saved.end());
  if (input != kNone) op.reads.push_back(input);
  if (segment == 0 || segment == last_segment()) op.reads.push_back(Now().batch);
  if (activation_gradient_ != kNone) op.reads.push_back(activation_gradient_);
  op.dependencies = std::exchange(compute_waits_, {});
  return op;
}

void StepBuilder::WriteGradients(int32_t segment, Op* op) {
  const std::vector<int32_t>& frozen = model_.segments[static_cast<size_t>(segment)].frozen_units;
  for (const int32_t unit_index : UnitsOf(segment)) {
    if (std::ranges::binary_search(frozen, unit_index)) continue;
    BufferId& gradient = state(unit_index).gradient;
    if (gradient == kNone) {
      gradient = NewBuffer(BufferKind::kGradient, unit_index,
                           TrainedBytes(unit_index, policy_.param_dtype));
      PutInSlot(gradient, state(unit_index).gradient_slot);
      op->allocates.push_back(gradient);
    }
    op->writes.push_back(gradient);
  }
}

BufferId StepBuilder::BackwardToNorm(int32_t segment) {
  const bool shares_sequence = SharesSequence(segment);
  const int64_t whole_bytes = MakeShared(OpKind::kAllGather, segment).payload_bytes;
  const BufferId own_gradient = activation_gradient_;
  if (shares_sequence && own_gradient != kNone) {
    Op gather = MakeShared(OpKind::kAllGather, segment);
    activation_gradient_ =
        NewSegmentBuffer(BufferKind::kActivationGradient, segment + 1, whole_bytes);
    gather.reads = {own_gradient};
    if (own_gradient == received_gradient_.buffer) {
      gather.dependencies.push_back(received_gradient_.ready);
    }
    gather.allocates = gather.writes = {activation_gradient_};
    EmitShared(std::move(gather));
  }
  Op op = MakeBackward(OpKind::kBackward, segment, kNone);
  if (activation_gradient_ != own_gradient) op.frees = {activation_gradient_};
  activation_gradient_ = own_gradient;
  const BufferId norm_gradient = NewSegmentBuffer(BufferKind::kNormGradient, segment, whole_bytes);
  op.allocates = op.writes = {norm_gradient};
  const Segment& description = model_.segments[static_cast<size_t>(segment)];
  BufferId hidden = kNone;
  if (policy_.tensor_async) {
    hidden = NewSegmentBuffer(BufferKind::kHiddenGradient, segment, description.hidden_bytes);
    op.allocates.push_back(hidden);
    op.writes.push_back(hidden);
  }
  WriteGradients(segment, &op);
  Emit(std::move(op));
  BufferId sum = norm_gradient;
  if (shares_sequence) {
    sum = NewSegmentBuffer(BufferKind::kNormGradient, segment, description.output_bytes);
    ScatterParts(segment, norm_gradient, sum, true);
  } else {
    ReduceParts(segment, norm_gradient);
  }
  if (hidden != kNone) WeightBackward(segment, hidden);
  return sum;
}

// Megatron-LM's linear_with_grad_accumulation_and_async_allreduce: what needs no other rank goes on
// under the collective, which was issued before.
void StepBuilder::WeightBackward(int32_t segment, BufferId hidden) {
  Op op = MakeOp(OpKind::kWeightBackward, kNone, kComputeStream);
  op.segment = segment;
  op.reads = SavedOf(segment);
  op.reads.push_back(hidden);
  op.frees = {hidden};
  WriteGradients(segment, &op);
  Emit(std::move(op));
}

void StepBuilder::BackwardSegment(int32_t segment) {
  const BufferId norm_gradient = IsSplit(segment) ? BackwardToNorm(segment) : kNone;
  const bool has_norm = norm_gradient != kNone;
  // The input was saved by reference: it is the output in the previous segment's activation.
  Op op =
      MakeBackward(has_norm ? OpKind::kNormBackward : OpKind::kBackward, segment, InputOf(segment));
  op.frees = FreedByBackward(segment);
  if (has_norm) {
    op.reads.push_back(norm_gradient);
    op.frees.push_back(norm_gradient);
  }
  if (FreesBatch(segment)) op.frees.push_back(Now().batch);
  if (activation_gradient_ != kNone) op.frees.push_back(activation_gradient_);
  WriteGradients(segment, &op);
  if (segment > first_trained_) {
    activation_gradient_ =
        NewSegmentBuffer(BufferKind::kActivationGradient, segment,
                         model_.segments[static_cast<size_t>(segment) - 1].output_bytes);
    op.allocates.push_back(activation_gradient_);
    op.writes.push_back(activation_gradient_);
  }
  Emit(std::move(op));
}

// Once a step, after all that reduces gradients (Megatron-LM: finalize_model_grads); with offload
// they go to the host then.
void StepBuilder::AddUpWholeParameters() {
  now_.phase = Phase::kBackward;
  const bool goes_to_host = policy_.updates_on_host();
  for (const int32_t index : trained_units_) {
    const BufferId gradient = goes_to_host ? std::exchange(state(index).waiting_shard, kNone)
                                           : state(index).reduced_gradient();
    Dependency ready = AfterStream(kComputeStream);
    const int64_t elements = WholeShardElements(TrainedPart(unit(index)), shard_ranks());
    if (elements > 0) {
      Op op = MakeOp(OpKind::kAllReduce, index, tensor_.stream);
      op.communicator = tensor_.communicator;
      op.dtype = policy_.gradient_dtype();
      op.payload_bytes = elements * BytesOf(op.dtype);
      op.wire_bytes = WireBytes(op.kind, op.payload_bytes, schedule_.GroupSize(op.communicator));
      op.reads = op.writes = {gradient};
      op.dependencies = {ready};
      ready = AfterEvent(Emit(std::move(op)));
    }
    if (goes_to_host) EmitToHost(index, gradient, ready);
  }
}

OpIndex StepBuilder::EmitReshard(int32_t unit_index) {
  Op op = MakeOp(OpKind::kReshard, unit_index, kComputeStream);
  op.frees = {std::exchange(state(unit_index).parameters, kNone)};
  return Emit(std::move(op));
}

void StepBuilder::FreeAfterBackward(int32_t unit_index) {
  const bool is_there = state(unit_index).parameters != kNone;
  if (is_there && ReshardsAfterBackward(unit_index)) EmitReshard(unit_index);
}

Op StepBuilder::MakeReduceCopyIn(int32_t unit_index, BufferId gradient, StreamIndex stream) {
  const BufferId input = NewBuffer(BufferKind::kReduceScatterInput, unit_index,
                                   TrainedBytes(unit_index, policy_.reduce_dtype));
  Op op = MakeOp(OpKind::kCopyIn, unit_index, stream);
  op.allocates = op.writes = {input};
  op.reads = {gradient};
  if (stream != kComputeStream) op.dependencies = {AfterStream(kComputeStream)};
  return op;
}

StepBuilder::Reduced StepBuilder::EmitReduceScatter(Op reduce, int32_t unit_index) {
  // The first gradient of a step becomes the gradient shard (FSDP2: `sharded_param.grad = ...` of
  // the reduced output, no copy); later ones are added to it, and another dtype has to be cast.
  Reduced reduced;
  const bool is_first = IsFirstReduction(unit_index);
  if (is_first && policy_.reduce_dtype == policy_.gradient_dtype() && !policy_.updates_on_host()) {
    reduce.writes = {state(unit_index).gradient_shard};
  } else {
    reduced.output = NewBuffer(BufferKind::kReduceScatterOutput, unit_index,
                               TrainedShardBytes(unit_index, policy_.reduce_dtype));
    reduce.allocates = reduce.writes = {reduced.output};
  }
  reduced.op = Emit(std::move(reduce));
  return reduced;
}

bool StepBuilder::IsFirstReduction(int32_t unit_index) {
  int32_t& first = state(unit_index).first_reduced;
  if (first == kNone) first = now_.micro_batch;
  return first == now_.micro_batch;
}

OpIndex StepBuilder::FinishReduction(int32_t unit_index, const Reduced& reduced) {
  Reduced sum = reduced;
  if (policy_.accumulation.sync == GradientSync::kReduceScatterOnly) {
    sum = AddToPartial(unit_index, reduced);
    if (!last_micro_batch()) return sum.op;
    state(unit_index).partial_shard = kNone;
  }
  if (has_replicas()) sum.op = EmitReplicaReduce(unit_index, sum);
  if (WaitsOnDevice()) return AddToWaiting(unit_index, sum);
  if (policy_.updates_on_host()) {
    EmitToHost(unit_index, sum.output, AfterEvent(sum.op));
    return sum.op;
  }
  return sum.output == kNone ? sum.op : EmitAccumulate(unit_index, sum.output);
}

// FSDP's HYBRID_SHARD and HSDP: an all-reduce of the shard, in place, on a stream of its own that
// waits for the reduce-scatter (_fsdp_collectives.py: foreach_reduce).
OpIndex StepBuilder::EmitReplicaReduce(int32_t unit_index, const Reduced& reduced) {
  Op op = MakeOp(OpKind::kAllReduce, unit_index, ReplicaStream());
  op.communicator = static_cast<CommunicatorIndex>(schedule_.communicators.size()) - 1;
  op.dtype = policy_.reduce_dtype;
  op.payload_bytes = TrainedShardBytes(unit_index, op.dtype);
  op.wire_bytes = WireBytes(op.kind, op.payload_bytes, schedule_.GroupSize(op.communicator));
  const BufferId shard =
      reduced.output == kNone ? state(unit_index).gradient_shard : reduced.output;
  op.reads = op.writes = {shard};
  op.dependencies = {AfterEvent(reduced.op)};
  return Emit(std::move(op));
}

}  // namespace shardscope::plan
