#include <map>
#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/step.h"

namespace shardscope::plan {
namespace {

constexpr StreamIndex kCopyInStream = 2;
constexpr StreamIndex kAllGatherStream = 3;
constexpr StreamIndex kReduceScatterStream = 4;

// FSDP2's waits, copies and free points (PyTorch fully_shard: events per unit, copy-in and
// copy-out, no host waits), for FULL_SHARD, SHARD_GRAD_OP and HSDP of both.
class Fsdp2Builder final : public StepBuilder {
 public:
  Fsdp2Builder(const ModelDescription& model, const Policy& policy)
      : StepBuilder(model, policy,
                    {{"host", StreamRole::kHost},
                     {"compute", StreamRole::kCompute},
                     {"all_gather_copy_in", StreamRole::kCopy},
                     {"all_gather", StreamRole::kAllGather},
                     {"reduce_scatter", StreamRole::kReduceScatter}}) {}

 protected:
  void StartForward() override { first_gather_ = true; }

  void PreForward(int32_t unit_index) override {
    if (state(unit_index).parameters != kNone) return;  // of a micro-batch in flight
    HeldOutput gathered = EmitGather(unit_index);
    // The previous output lives until here, so that this unit's copy-in may run under the previous
    // all-gather, in other memory.
    ReleaseOutput(held_output_);
    EmitCopyOut(gathered);
    held_output_ = gathered;
  }

  void PostForward(int32_t unit_index) override {
    if (HasPostForwardShard(unit_index)) EmitPostForwardShard(unit_index);
    if (ReshardsAfterForward(unit_index)) EmitReshard(unit_index);
  }

  void EndForward() override { ReleaseOutput(held_output_); }

  void PreBackward(int32_t unit_index) override {
    if (state(unit_index).parameters != kNone) return;
    HeldOutput gathered = EmitGather(unit_index);
    EmitCopyOut(gathered);
    ReleaseOutput(gathered);
  }

  void PostBackward(int32_t unit_index) override {
    const BufferId gradient = TakeGradient(unit_index);
    // SHARD_GRAD_OP too frees after the backward of every micro-batch, and gathers once in each.
    FreeAfterBackward(unit_index);
    if (gradient == kNone) return KeepGradient(unit_index, policy().reduce_dtype);
    // Compute waits for the previous reduce-scatter, so that at most two inputs exist at once.
    ReleaseInput(held_input_.reduce_scatter);
    HeldInput held;
    held.unit = unit_index;
    Op copy = MakeReduceCopyIn(unit_index, gradient, kComputeStream);
    copy.frees = {gradient};
    held.buffer = copy.writes.front();
    Emit(std::move(copy));
    Op reduce = MakeCollective(OpKind::kReduceScatter, unit_index, kReduceScatterStream,
                               policy().reduce_dtype);
    reduce.reads = {held.buffer};
    reduce.dependencies = {AfterStream(kComputeStream)};
    const Reduced reduced = EmitReduceScatter(std::move(reduce), unit_index);
    held.reduce_scatter = reduced.op;
    held.last = FinishReduction(unit_index, reduced);
    held_input_ = held;
  }

  void EndBackward() override {
    // The optimizer, and the next forward, follow on compute: without this wait they would read
    // gradient shards that are still being reduced.
    if (WaitsForReductions()) ReleaseInput(held_input_.last);
  }

  StreamIndex ReduceStream() const override { return kReduceScatterStream; }

 private:
  // An all-gather output that has been copied out but is still held.
  struct HeldOutput {
    int32_t unit = kNone;
    BufferId buffer = kNone;
    OpIndex copy_out = kNone;
  };
  // The reduce-scatter whose input is still held.
  struct HeldInput {
    int32_t unit = kNone;
    BufferId buffer = kNone;
    OpIndex reduce_scatter = kNone;
    OpIndex last = kNone;  // that writes the gradient shard
  };

  // Compute copies the rank's part among fewer ranks, which waits there for the backward
  // (_fsdp_param.py: to_sharded_post_forward).
  void EmitPostForwardShard(int32_t unit_index) {
    const int64_t whole_bytes = UnshardedBytes(unit_index, policy().param_dtype);
    const BufferId shard = NewBuffer(BufferKind::kPostForwardShard, unit_index,
                                     whole_bytes / policy().post_forward_ranks);
    Op copy = MakeOp(OpKind::kCopyIn, unit_index, kComputeStream);
    copy.allocates = copy.writes = {shard};
    copy.reads = {state(unit_index).parameters};
    state(unit_index).post_forward_shard = shard;
    post_forward_copies_[unit_index] = Emit(std::move(copy));
  }

  // copy-in and all-gather
  HeldOutput EmitGather(int32_t unit_index) {
    HeldOutput gathered;
    gathered.unit = unit_index;
    gathered.buffer = NewBuffer(BufferKind::kAllGatherOutput, unit_index,
                                UnshardedBytes(unit_index, policy().param_dtype));
    const bool is_waiting = state(unit_index).post_forward_shard != kNone;
    const Shard own = is_waiting ? Shard() : BringShard(unit_index);
    Op copy = MakeOp(OpKind::kCopyIn, unit_index, kCopyInStream);
    copy.allocates = copy.writes = {gathered.buffer};
    if (!is_waiting) ReadShard(own, &copy);
    Op gather =
        MakeCollective(OpKind::kAllGather, unit_index, kAllGatherStream, policy().param_dtype);
    gather.reads = gather.writes = {gathered.buffer};  // in place: own slot is the input
    if (is_waiting) {
      copy.reads = {state(unit_index).post_forward_shard};
      copy.dependencies = {AfterEvent(post_forward_copies_.at(unit_index))};
      gather.communicator = post_forward_communicator();
      gather.wire_bytes = WireBytes(gather.kind, gather.payload_bytes, policy().post_forward_ranks);
    }
    if (std::exchange(first_gather_, false)) {
      // Root pre-forward: no gather may read shards that the last optimizer step still writes.
      copy.dependencies.push_back(AfterStream(kComputeStream));
      gather.dependencies.push_back(AfterStream(kComputeStream));
    }
    gather.dependencies.push_back(AfterEvent(Emit(std::move(copy))));
    all_gather_ = Emit(std::move(gather));
    return gathered;
  }

  // compute waits for the all-gather, then copies
  void EmitCopyOut(HeldOutput& gathered) {
    const BufferId unsharded = NewBuffer(BufferKind::kUnsharded, gathered.unit,
                                         UnshardedBytes(gathered.unit, policy().param_dtype));
    Op copy = MakeOp(OpKind::kCopyOut, gathered.unit, kComputeStream);
    copy.allocates = copy.writes = {unsharded};
    copy.reads = {gathered.buffer};
    copy.dependencies = {AfterEvent(all_gather_)};
    BufferId& waiting = state(gathered.unit).post_forward_shard;
    if (waiting != kNone) copy.frees = {std::exchange(waiting, kNone)};
    gathered.copy_out = Emit(std::move(copy));
    state(gathered.unit).parameters = unsharded;
  }

  // no-op if nothing is held
  void ReleaseOutput(HeldOutput& held) {
    if (held.unit == kNone) return;
    // The next copy-in takes its memory from the output freed here, so it is freed on that stream:
    // two outputs are never there at once but where the Schedule says so.
    Op release = MakeOp(OpKind::kRelease, held.unit, kCopyInStream);
    release.frees = {held.buffer};
    release.dependencies = {AfterEvent(held.copy_out)};
    Emit(std::move(release));
    // FSDP2 lets both streams wait (_wait_all_gather_streams_on_event).
    Op wait = MakeOp(OpKind::kRelease, held.unit, kAllGatherStream);
    wait.dependencies = {AfterEvent(held.copy_out)};
    Emit(std::move(wait));
    held = HeldOutput();
  }

  // the same
  void ReleaseInput(OpIndex after) {
    if (held_input_.unit == kNone) return;
    Op release = MakeOp(OpKind::kRelease, held_input_.unit, kComputeStream);
    release.frees = {held_input_.buffer};
    release.dependencies = {AfterEvent(after)};
    Emit(std::move(release));
    held_input_ = HeldInput();
  }

  bool first_gather_ = false;                       // of this micro-batch's forward
  OpIndex all_gather_ = kNone;                      // the last one issued
  std::map<int32_t, OpIndex> post_forward_copies_;  // by unit: that has made its shard
  HeldOutput held_output_;
  HeldInput held_input_;
};

}  // namespace

Schedule BuildFsdp2(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<Fsdp2Builder>(model, policy);
}

}  // namespace shardscope::plan
