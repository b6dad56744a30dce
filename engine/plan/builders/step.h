// StepBuilder: the part of a training step that every strategy shares (control, batches, forward
// and backward of the segments, gradient norm, optimizer). A strategy derives from it and emits its
// own ops at each unit's pre- and post-points. The result has no prefetch: passes add that.
#pragma once

#include <vector>

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"

namespace shardscope::plan {

// Of all-gathers; of replicas' all-reduces where nothing is sharded.
inline constexpr CommunicatorIndex kShardCommunicator = 0;

// The unit's buffers while the step is being built.
struct UnitState {
  BufferId parameter_shard = kNone;
  BufferId gradient_shard = kNone;
  BufferId optimizer_state = kNone;
  BufferId whole_parameters = kNone;  // where ranks keep all of them, but a slice of the rest
  BufferId whole_gradient = kNone;    // the same
  int32_t first_reduced = kNone;      // micro-batch whose gradient the shard got first
  BufferId parameters = kNone;  // what forward and backward read now; kNone while not gathered
  BufferId gradient = kNone;    // allocated by the unit's first backward op of a micro-batch

  // What the optimizer reads and updates: where ranks have no slice apart, theirs of the whole.
  BufferId reduced_gradient() const {
    return gradient_shard == kNone ? whole_gradient : gradient_shard;
  }
  BufferId master() const { return parameter_shard == kNone ? whole_parameters : parameter_shard; }
};

class StepBuilder {
 public:
  // `model` and `policy` must outlive the builder.
  StepBuilder(const ModelDescription& model, const Policy& policy, std::vector<Stream> streams);
  virtual ~StepBuilder() = default;
  StepBuilder(const StepBuilder&) = delete;
  StepBuilder& operator=(const StepBuilder&) = delete;

  // To be called once.
  Schedule Build();

 protected:
  // Called in host order. A unit spans its first to its last segment: Pre* before the span's first
  // compute op, Post* after its last one.
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

  // The segments that use a unit, and those between them.
  struct Span {
    int32_t first = kNone;
    int32_t last = kNone;
  };
  const Span& SpanOf(int32_t unit_index) const { return spans_[static_cast<size_t>(unit_index)]; }

  const Policy& policy() const { return policy_; }
  const Unit& unit(int32_t index) const { return model_.units[static_cast<size_t>(index)]; }
  UnitState& state(int32_t index) { return states_[static_cast<size_t>(index)]; }
  bool ReshardsAfterForward(int32_t index) const;
  bool first_micro_batch() const { return micro_batch_ == 0; }
  bool last_micro_batch() const { return micro_batch_ + 1 == policy_.micro_batches; }
  bool has_replicas() const { return policy_.strategy->replicates_shards(); }
  // Where there are replicas: on which they reduce their shards.
  StreamIndex ReplicaStream() const {
    return static_cast<StreamIndex>(schedule_.streams.size()) - 1;
  }

  // Bytes of one rank's padded slice of the unit, and of all slices together.
  int64_t ShardBytes(int32_t index, DType dtype) const;
  int64_t UnshardedBytes(int32_t index, DType dtype) const;

  // Makes an op or a buffer of the current phase and micro-batch.
  Op MakeOp(OpKind kind, int32_t unit_index, StreamIndex stream) const;
  Op MakeCollective(OpKind kind, int32_t unit_index, StreamIndex stream, DType dtype) const;
  BufferId NewBuffer(BufferKind kind, int32_t unit_index, int64_t bytes);
  OpIndex Emit(Op op);

  // Pieces that FSDP1 and FSDP2 share.
  void EmitReshard(int32_t unit_index);
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
  // What follows: replicas reduce it in place, and it is added to the gradient shard where it is
  // not that already. Returns the last op that writes the shard.
  OpIndex FinishReduction(int32_t unit_index, const Reduced& reduced);
  // Adds `reduced` to the gradient shard, and frees it.
  OpIndex EmitAccumulate(int32_t unit_index, BufferId reduced);

 private:
  // Whether the gradient shard holds nothing of this step before this micro-batch.
  bool IsFirstReduction(int32_t unit_index);
  OpIndex EmitReplicaReduce(int32_t unit_index, const Reduced& reduced);
  void AddCommunicators();
  void AddPersistentBuffers();
  void Forward();
  void Backward();
  void ForwardSegment(int32_t segment);
  void BackwardSegment(int32_t segment);
  void Optimizer();
  const std::vector<int32_t>& UnitsOf(int32_t segment) const {
    return model_.segments[static_cast<size_t>(segment)].units;
  }
  int32_t LastSegment() const { return static_cast<int32_t>(model_.segments.size()) - 1; }
  BufferId NewSegmentBuffer(BufferKind kind, int32_t segment, int64_t bytes);

  const ModelDescription& model_;
  const Policy& policy_;
  const int shard_ranks_;
  Schedule schedule_;
  Program program_;
  std::vector<UnitState> states_;
  std::vector<Span> spans_;  // by unit
  Phase phase_ = Phase::kForward;
  int32_t micro_batch_ = kNone;
  CommunicatorIndex reduce_communicator_ = kShardCommunicator;
  BufferId batch_ = kNone;
  std::vector<BufferId> activations_;     // by segment
  BufferId activation_gradient_ = kNone;  // of the output of the segment that goes next
};

inline constexpr StreamIndex kHostStream = 0;
inline constexpr StreamIndex kComputeStream = 1;

inline Dependency AfterEvent(OpIndex op) { return {DependencyKind::kEvent, op}; }
inline Dependency AfterStream(StreamIndex stream) { return {DependencyKind::kStream, stream}; }

}  // namespace shardscope::plan
