#include <array>
#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/step.h"
#include "engine/plan/state.h"

namespace shardscope::plan {
namespace {

constexpr StreamIndex kCastStream = 2;
constexpr StreamIndex kGatherStream = 3;
constexpr StreamIndex kScatterStream = 4;

// Full sharding in two parameter and two gradient slots that stay where they are, each as large as
// the largest unit (llmq; Megatron's fsdp_double_buffer). Units take them in turn: while one is
// used the next is gathered into the other slot, once the unit that had it is done.
class DoubleBufferBuilder final : public StepBuilder {
 public:
  DoubleBufferBuilder(const ModelDescription& model, const Policy& policy)
      : StepBuilder(model, policy,
                    {{"host", StreamRole::kHost},
                     {"compute", StreamRole::kCompute},
                     {"cast", StreamRole::kCopy},
                     {"all_gather", StreamRole::kAllGather},
                     {"reduce_scatter", StreamRole::kReduceScatter}}) {}

 protected:
  void StartForward() override { is_first_gather_ = true; }

  void PreForward(int32_t unit_index) override {
    Gather(unit_index);
    if (unit_index + 1 < num_units()) Gather(unit_index + 1);
    WaitFor(gathers_[SlotOf(unit_index)]);
  }

  // The last two are what backward uses first.
  void PostForward(int32_t unit_index) override {
    if (unit_index + kNumSlots < num_units()) Reshard(unit_index);
  }

  void PreBackward(int32_t unit_index) override {
    Gather(unit_index);
    if (unit_index > 0 && HasBackward(unit_index - 1)) Gather(unit_index - 1);
    WaitFor(gathers_[SlotOf(unit_index)]);
    // The gradient's memory: until then that of a unit before is reduced from it.
    WaitFor(reduced_[SlotOf(unit_index)]);
  }

  void PostBackward(int32_t unit_index) override {
    if (state(unit_index).parameters != kNone) Reshard(unit_index);
    if (!IsTrained(unit_index)) return;
    reduced_[SlotOf(unit_index)] =
        EmitHeldReduction(unit_index, std::exchange(state(unit_index).gradient, kNone));
  }

  void EndBackward() override { WaitForHeldReductions(); }

  StreamIndex ReduceStream() const override { return kScatterStream; }

 private:
  static size_t SlotOf(int32_t unit_index) { return static_cast<size_t>(unit_index % kNumSlots); }

  // No-op if it is there, or on its way.
  void Gather(int32_t unit_index) {
    if (state(unit_index).parameters != kNone) return;
    const bool is_first = std::exchange(is_first_gather_, false);
    Op gather = MakeCollective(OpKind::kAllGather, unit_index, kGatherStream, policy().param_dtype);
    if (is_first) gather.dependencies = {AfterStream(kComputeStream)};  // the last update
    gather.reads = {state(unit_index).parameter_shard};
    if (policy().param_dtype != policy().master_dtype) {
      const BufferId shard = NewBuffer(BufferKind::kCastShard, unit_index,
                                       ShardBytes(unit_index, policy().param_dtype));
      Op cast = MakeOp(OpKind::kCast, unit_index, kCastStream);
      cast.allocates = cast.writes = {shard};
      cast.reads = {state(unit_index).parameter_shard};
      if (is_first) cast.dependencies = {AfterStream(kComputeStream)};
      gather.reads = gather.frees = {shard};
      gather.dependencies.push_back(AfterEvent(Emit(std::move(cast))));
    }
    const OpIndex reshard = reshards_[SlotOf(unit_index)];
    if (reshard != kNone) gather.dependencies.push_back(AfterEvent(reshard));
    const BufferId parameters = NewBuffer(BufferKind::kUnsharded, unit_index,
                                          UnshardedBytes(unit_index, policy().param_dtype));
    PutInSlot(parameters, state(unit_index).parameter_slot);
    gather.allocates = gather.writes = {parameters};
    gathers_[SlotOf(unit_index)] = Emit(std::move(gather));
    state(unit_index).parameters = parameters;
  }

  void Reshard(int32_t unit_index) { reshards_[SlotOf(unit_index)] = EmitReshard(unit_index); }

  bool is_first_gather_ = false;  // of this micro-batch's forward
  // By slot: the last op that filled it, that ended its use, and that freed the gradient there.
  std::array<OpIndex, kNumSlots> gathers_ = {kNone, kNone};
  std::array<OpIndex, kNumSlots> reshards_ = {kNone, kNone};
  std::array<OpIndex, kNumSlots> reduced_ = {kNone, kNone};
};

}  // namespace

Schedule BuildDoubleBuffer(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<DoubleBufferBuilder>(model, policy);
}

}  // namespace shardscope::plan
