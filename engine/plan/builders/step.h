// StepBuilder: the part of a training step that every strategy shares (control, batches, forward
// and backward of the segments, gradient norm, optimizer). A strategy derives from it and emits its
// own ops at each unit's pre- and post-points. The result has no prefetch: passes add that.
#pragma once

#include <utility>
#include <vector>

#include "engine/plan/builders/stage_order.h"
#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"
#include "engine/plan/state.h"

namespace shardscope::plan {

// Of all-gathers; of replicas' all-reduces where nothing is sharded.
inline constexpr CommunicatorIndex kShardCommunicator = 0;

inline constexpr StreamIndex kHostStream = 0;
inline constexpr StreamIndex kComputeStream = 1;

// The unit's buffers while the step is being built.
struct UnitState {
  BufferId parameter_shard = kNone;
  BufferId gradient_shard = kNone;
  BufferId optimizer_state = kNone;
  BufferId host_master = kNone;       // weights that the host updates
  BufferId whole_parameters = kNone;  // where ranks keep all of them, but a slice of the rest
  BufferId whole_gradient = kNone;    // the same
  int32_t first_reduced = kNone;      // micro-batch whose gradient the shard got first
  BufferId parameters = kNone;      // what forward and backward read now; kNone while not gathered
  BufferId parameter_slot = kNone;  // where they are to lie, if that is fixed
  BufferId gradient_slot = kNone;   // the same
  BufferId post_forward_shard = kNone;  // where it waits for its backward
  BufferId gradient = kNone;  // allocated by the unit's first backward op of a micro-batch
  BufferId accumulated_gradient = kNone;  // of micro-batches so far, where they are not reduced
  // Their sum, reduce-scattered, where replicas wait for the last.
  BufferId partial_shard = kNone;
  // Their sum in the dtype of the shard, where the way to the host waits for the last.
  BufferId waiting_shard = kNone;

  // What the optimizer reads and updates: where ranks have no slice apart, theirs of the whole.
  BufferId reduced_gradient() const {
    return gradient_shard == kNone ? whole_gradient : gradient_shard;
  }
  BufferId master() const {
    if (host_master != kNone) return host_master;
    return parameter_shard == kNone ? whole_parameters : parameter_shard;
  }
};

class StepBuilder {
 public:
  // `model` and `policy` must outlive the builder.
  StepBuilder(const ModelDescription& model, const Policy& policy, std::vector<Stream> streams);
  virtual ~StepBuilder() = default;
  StepBuilder(const StepBuilder&) = delete;
  StepBuilder& operator=(const StepBuilder&) = delete;

  // The Schedule with the program of the ranks at `place` along mesh.pipeline. To be called once.
  Schedule Build(int32_t place);

 protected:
  // Called in host order. A unit spans its first to its last segment: Pre* before the span's first
  // compute op, Post* after its last one. For a unit without backward PostBackward is called at the
  // end of that, to free what is still there.
  virtual void LoadBatch(BufferId batch);
  virtual void StartForward() {}  // root pre-forward
  virtual void PreForward(int32_t unit) = 0;
  virtual void PostForward(int32_t unit) = 0;
  virtual void EndForward() {}  // root post-forward
  virtual void PreBackward(int32_t unit) = 0;
  virtual void PostBackward(int32_t unit) = 0;
  virtual void EndBackward() = 0;  // final callback: compute waits for all reductions
  // `optimizer` is the unit's op.
  virtual void PostOptimizer(int32_t /*unit*/, OpIndex /*optimizer*/) {}
  virtual void EndStep() {}
  // The stream that reduces gradients, and the gradient norm.
  virtual StreamIndex ReduceStream() const = 0;
  // Whether the program's ranks keep the model, and update it.
  virtual bool KeepsState() const { return true; }

  // The segments that use a unit, and those between them.
  struct Span {
    int32_t first = kNone;
    int32_t last = kNone;
    int32_t first_backward = kNone;  // of those that have one
  };
  const Span& SpanOf(int32_t unit_index) const { return spans_[static_cast<size_t>(unit_index)]; }

  const Policy& policy() const { return policy_; }
  const Unit& unit(int32_t index) const { return model_.units[static_cast<size_t>(index)]; }
  UnitState& state(int32_t index) { return states_[static_cast<size_t>(index)]; }
  bool ReshardsAfterForward(int32_t index) const;
  // Whether it has a gradient; whether any of its segments has a backward, which those before the
  // first trained one have not.
  bool IsTrained(int32_t index) const { return plan::IsTrained(unit(index)); }
  bool HasBackward(int32_t index) const { return SpanOf(index).first_backward != kNone; }
  // Whether that leaves a part of it, for a backward that gathers among fewer ranks: what has none
  // is not gathered again.
  bool HasPostForwardShard(int32_t index) const {
    return policy_.post_forward_ranks > 0 && ReshardsAfterForward(index) && HasBackward(index);
  }
  // Where its parts are gathered.
  CommunicatorIndex post_forward_communicator() const { return post_forward_communicator_; }
  // Whether the unit's backward of a later micro-batch is still to come, after its forward.
  bool IsInFlight() const { return num_in_flight_[static_cast<size_t>(now_.stage)] > 0; }
  // Whether this micro-batch's gradients are reduced.
  bool ReducesGradients() const {
    return policy_.accumulation.sync != GradientSync::kNoSync || last_micro_batch();
  }
  // Whether the end of this backward waits for reductions.
  bool WaitsForReductions() const { return policy_.accumulation.waits || last_micro_batch(); }
  bool first_micro_batch() const { return now_.micro_batch == 0; }
  bool last_micro_batch() const { return now_.micro_batch + 1 == policy_.micro_batches; }
  int32_t num_ranks() const { return policy_.mesh.num_ranks(); }
  int shard_ranks() const { return policy_.mesh.size(MeshDimension::kShard); }
  int32_t num_units() const { return static_cast<int32_t>(model_.units.size()); }
  int64_t batch_bytes() const { return model_.batch_bytes; }
  int32_t last_segment() const { return static_cast<int32_t>(model_.segments.size()) - 1; }
  int64_t output_bytes() const { return model_.segments.back().output_bytes; }
  BufferId output() const { return Now().activations.back(); }
  bool has_replicas() const { return policy_.strategy->replicates_shards(); }
  // Where there are replicas: on which they reduce their shards.
  StreamIndex ReplicaStream() const {
    return static_cast<StreamIndex>(schedule_.streams.size()) - 1;
  }

  // Bytes of one rank's padded slice of the unit, and of all slices together.
  int64_t ShardBytes(int32_t index, DType dtype) const;
  int64_t UnshardedBytes(int32_t index, DType dtype) const;
  // The same of its trained part, which gradients are.
  int64_t TrainedShardBytes(int32_t index, DType dtype) const;
  int64_t TrainedBytes(int32_t index, DType dtype) const;

  // Makes an op or a buffer of the current phase and micro-batch.
  Op MakeOp(OpKind kind, int32_t unit_index, StreamIndex stream) const;
  Op MakeCollective(OpKind kind, int32_t unit_index, StreamIndex stream, DType dtype) const;
  BufferId NewBuffer(BufferKind kind, int32_t unit_index, int64_t bytes);
  OpIndex Emit(Op op);
  // The next compute op waits for all that is issued on the stream.
  void WaitInCompute(StreamIndex stream);

  // The same for one op; kNone: no-op.
  void WaitFor(OpIndex op);
  // `buffer` takes no memory of its own; `slot` may be kNone.
  void PutInSlot(BufferId buffer, BufferId slot);

  // Pieces that FSDP1 and FSDP2 share.
  OpIndex EmitReshard(int32_t unit_index);
  // The same after its backward, if it is not to stay and not freed yet.
  void FreeAfterBackward(int32_t unit_index);
  // Takes the unit's gradient of this micro-batch, added to those before where they were not
  // reduced. kNone: that is not to be reduced yet. Before the unit is resharded.
  BufferId TakeGradient(int32_t unit_index);
  // Keeps what TakeGradient() has not given, in `dtype`. After the unit is resharded.
  void KeepGradient(int32_t unit_index, DType dtype);
  // Casts `gradient` to the reduce dtype (FSDP2: and lays it out by rank) in a new reduce-scatter
  // input, the op's only write. When the gradient is freed depends on the preset.
  Op MakeReduceCopyIn(int32_t unit_index, BufferId gradient, StreamIndex stream);
  // What a reduce-scatter left: kNone if it wrote the gradient shard itself.
  struct Reduced {
    OpIndex op = kNone;
    BufferId output = kNone;  // to be accumulated
  };
  // Gives `reduce` its output and emits it.
  Reduced EmitReduceScatter(Op reduce, int32_t unit_index);
  // The unit's shard on the device, and the op that has brought it there; kNone where it always is.
  struct Shard {
    BufferId buffer = kNone;
    OpIndex brought = kNone;
  };
  // Copies it there if it is offloaded, in `phase` and after `dependencies`: then the op that reads
  // it frees it.
  Shard BringShard(int32_t unit_index, Phase phase, std::vector<Dependency> dependencies);
  Shard BringShard(int32_t unit_index) { return BringShard(unit_index, now_.phase, {}); }
  // Makes `op`, whose stream waits for the shard, read it, and free it if it is a copy.
  static void ReadShard(const Shard& shard, Op* op);
  // What follows: replicas reduce it in place, and it is added to the gradient shard where it is
  // not that already. Returns the last op that writes the shard.
  OpIndex FinishReduction(int32_t unit_index, const Reduced& reduced);
  // Reduces the gradient into the unit's shard where what is reduced is held until that is done: on
  // ReduceStream(), cast there where the reduce dtype is another. Returns the op that frees it.
  OpIndex EmitHeldReduction(int32_t unit_index, BufferId gradient);
  // The end of a backward that waits for them: compute does, of replicas too.
  void WaitForHeldReductions();
  // Adds `reduced` to the gradient shard, and frees it.
  OpIndex EmitAccumulate(int32_t unit_index, BufferId reduced);

 private:
  // What a micro-batch leaves between its forward and its backward.
  struct InFlight {
    BufferId batch = kNone;
    std::vector<BufferId> activations;  // by segment
    std::vector<BufferId> norms;        // likewise: what its norm put out, where that is gathered
    std::vector<BufferId> recomputed;   // likewise: what forward did not keep, once it is there
    std::vector<OpIndex> sends;         // by segment: of its output to the next stage
  };

  // From the next stage.
  struct ReceivedGradient {
    BufferId buffer = kNone;
    Dependency ready;
  };

  // Where collectives go.
  struct Way {
    CommunicatorIndex communicator = kNone;
    StreamIndex stream = kNone;
  };

  bool ReshardsAfterBackward(int32_t index) const;
  // Whether the gradient shard holds nothing of this step before this micro-batch.
  bool IsFirstReduction(int32_t unit_index);
  // Adds it to those of micro-batches before, until the sum goes on.
  Reduced AddToPartial(int32_t unit_index, const Reduced& reduced);
  // The same of what replicas have reduced, where it WaitsOnDevice(); returns the last op that
  // writes the sum.
  OpIndex AddToWaiting(int32_t unit_index, const Reduced& reduced);
  // Whether tensor ranks add up gradients once more before these go to the host.
  bool WaitsOnDevice() const { return policy_.updates_on_host() && AddsUpWholeParameters(); }
  // Whether the gradient shard gets the sum of all micro-batches at once.
  bool SumsBeforeShard() const {
    return policy_.accumulation.sync == GradientSync::kReduceScatterOnly || WaitsOnDevice();
  }
  // Where what is reduced is added up, after the last op that reduces it.
  StreamIndex AccumulateStream() const { return has_replicas() ? ReplicaStream() : ReduceStream(); }
  // `adds`: to what is there.
  Op MakeAccumulate(int32_t unit_index, StreamIndex stream, BufferId from, BufferId to, bool adds);
  // Whether gradients are finite, on all ranks; returns the op that has it.
  OpIndex EmitUnscale(BufferId found_inf);
  // A scalar of all ranks that have different parts of the gradient; returns the op after which it
  // is there, `ready` is the one that made the rank's.
  OpIndex EmitScalarReduce(BufferId scalar, OpIndex ready);
  OpIndex EmitReplicaReduce(int32_t unit_index, const Reduced& reduced);
  // Offload (offload.cc): `reduced` goes to the host, which may update the unit then.
  void EmitToHost(int32_t unit_index, BufferId reduced, Dependency ready);
  bool UpdatesEarly(int32_t unit_index) const {
    return IsBroughtFromHost(unit(unit_index), policy_) && !policy_.update.clips &&
           !AddsUpWholeParameters() && unit_index != trained_units_.front();
  }
  // Where gradients are added up and units updated.
  StreamIndex UpdateStream() const {
    return policy_.updates_on_host() ? offload_stream_ + 2 : kComputeStream;
  }
  // What the host has updated comes to the rank's copy, if it keeps one. Returns the op after which
  // it is there: `update` otherwise.
  OpIndex RenewShard(int32_t unit_index, OpIndex update);
  OpIndex EmitUpdate(int32_t unit_index, BufferId norm, BufferId found_inf);
  std::vector<Dependency> AfterGradients() const;
  void AddCommunicators();
  // A collective of tensor ranks, over an output of the segment or a gradient of that size. What
  // compute has made is there when it starts, and the next compute op waits for it.
  Op MakeShared(OpKind kind, int32_t segment) const;
  void EmitShared(Op op);
  // The parts that tensor ranks have of `buffer` become the whole.
  void ReduceParts(int32_t segment, BufferId buffer);
  // Of the sum of these parts the rank gets its part of the sequence, in `own`, which the op
  // allocates if it is new; frees `parts`.
  void ScatterParts(int32_t segment, BufferId parts, BufferId own, bool is_new);
  // Gradients of parameters that all of them have: a rank's are those of its part of the sequence.
  void AddUpWholeParameters();
  bool AddsUpWholeParameters() const {
    return policy_.units.sequence_parallel || model_.has_partial_gradients;
  }
  void AddPersistentBuffers();
  void AddSlot(BufferId id);
  bool HasPipeline() const { return pipeline_ranks_ > 1; }
  bool HasTensor() const { return tensor_.stream != kNone; }
  bool IsSplit(int32_t segment) const {
    return HasTensor() && model_.segments[static_cast<size_t>(segment)].is_split;
  }
  // Whether tensor ranks share a segment's work, and the sequence outside of it.
  bool SharesSequence(int32_t segment) const {
    return IsSplit(segment) && policy_.units.sequence_parallel;
  }
  StreamIndex PipelineStream(OpKind kind) const;
  // Between the stages on both sides of `boundary`, the last segment of the first one: forward its
  // output, backward the gradient of that.
  Op MakeExchange(OpKind kind, int32_t boundary) const;
  // The next compute op waits for it.
  BufferId Receive(BufferKind kind, int32_t boundary);
  void ReceiveActivation();
  void ReceiveAhead(const StageRun& next);
  void Enter(const StageRun& run) { now_ = run; }
  void SendActivation();
  void SendGradient();
  void ReleaseSentGradient();
  // What forward has left in a stage that has no backward.
  void ReleaseForward();
  bool NeedsBatch() const;
  bool FreesBatch(int32_t segment) const;
  void Forward();
  void Backward(const StageRun* next);
  void ForwardSegment(int32_t segment);
  Op MakeForward(OpKind kind, int32_t segment);
  // Of a segment whose ranks share the sequence; gathers what it puts out.
  void NormForward(OpKind kind, int32_t segment);
  // Emits what makes a segment's output, in the first buffer that it writes, or the rank's part of
  // that: ranks that share its work add them up, if any op needs it.
  void EmitWithSum(Op op, int32_t segment, bool needs_output);
  // Activation checkpointing (recompute.cc). Of a segment in the running micro-batch: what its
  // forward keeps; what it reads of the one before; what its backward reads of its own; what its
  // forward and its backward are the last to use.
  int64_t KeptBytes(int32_t segment) const;
  // Whether the next segment's recompute follows on this one's, whose output is not kept.
  bool GoesOn(int32_t segment) const {
    return segment >= first_trained_ && GoOnTogether(model_, keeps_, segment);
  }
  BufferId InputOf(int32_t segment) const;
  std::vector<BufferId> SavedOf(int32_t segment) const;
  std::vector<BufferId> FreedByForward(int32_t segment) const;
  std::vector<BufferId> FreedByBackward(int32_t segment) const;
  // PreBackward() of the units that a segment's backward is the first to use, then what is to be
  // recomputed for it: with the last segment of a block, of all of that block.
  void PrepareBackward(int32_t segment);
  void RecomputeSegment(int32_t segment);
  void BackwardSegment(int32_t segment);
  // `input`: of the segment, if the op reads it.
  Op MakeBackward(OpKind kind, int32_t segment, BufferId input);
  // To the norm of a segment whose work is shared; returns the gradient there.
  BufferId BackwardToNorm(int32_t segment);
  // The gradient of the weight behind the norm, from `hidden`; waits for no tensor rank.
  void WeightBackward(int32_t segment, BufferId hidden);
  void WriteGradients(int32_t segment, Op* op);
  void Optimizer();
  const std::vector<int32_t>& UnitsOf(int32_t segment) const {
    return model_.segments[static_cast<size_t>(segment)].units;
  }
  const InFlight& Now() const { return in_flight_[static_cast<size_t>(now_.micro_batch)]; }
  InFlight& Now() { return in_flight_[static_cast<size_t>(now_.micro_batch)]; }
  const Span& Stage() const { return stages_[static_cast<size_t>(now_.stage)]; }
  BufferId NewSegmentBuffer(BufferKind kind, int32_t segment, int64_t bytes);

  const ModelDescription& model_;
  const Policy& policy_;
  const int32_t first_trained_;     // segment, of those that have a backward
  const std::vector<Keeps> keeps_;  // by segment
  Schedule schedule_;
  Program program_;
  std::vector<UnitState> states_;
  std::vector<int32_t> trained_units_;     // of the rank's stages, ascending
  std::vector<Span> spans_;                // by unit
  StageRun now_ = {.micro_batch = kNone};  // what ops and buffers that are made belong to
  CommunicatorIndex reduce_communicator_ = kShardCommunicator;
  CommunicatorIndex norm_communicator_ = kShardCommunicator;
  CommunicatorIndex post_forward_communicator_ = kNone;
  Way pipeline_;  // of activations, sent; see PipelineStream(). The gradients' communicator is next
  Way tensor_;
  StreamIndex offload_stream_ = kNone;  // to the device; to the host, and of the host's work follow
  const int32_t pipeline_ranks_;
  std::vector<Span> stages_;               // their segments
  int32_t place_ = 0;                      // along mesh.pipeline
  std::vector<InFlight> in_flight_;        // by micro-batch
  std::vector<int32_t> num_in_flight_;     // by stage
  BufferId activation_gradient_ = kNone;   // of the output of the segment that goes next
  ReceivedGradient received_gradient_;     // the last one
  std::vector<Dependency> compute_waits_;  // of the next compute op
  struct SentGradient {
    BufferId buffer = kNone;  // its memory is compute's: freed there
    OpIndex send = kNone;
  };
  SentGradient sent_gradient_;
};

// A Schedule of the programs of all places along mesh.pipeline.
template <typename Builder>
Schedule BuildPrograms(const ModelDescription& model, const Policy& policy) {
  Schedule schedule = Builder(model, policy).Build(0);
  for (int32_t place = 1; place < policy.mesh.size(MeshDimension::kPipeline); ++place) {
    schedule.programs.push_back(std::move(Builder(model, policy).Build(place).programs.front()));
  }
  for (int32_t rank = 0; rank < policy.mesh.num_ranks(); ++rank) {
    schedule.program_of_rank.push_back(policy.mesh.Coordinate(rank, MeshDimension::kPipeline));
  }
  return schedule;
}

inline Dependency AfterEvent(OpIndex op) { return {DependencyKind::kEvent, op}; }
inline Dependency AfterStream(StreamIndex stream) { return {DependencyKind::kStream, stream}; }

}  // namespace shardscope::plan
