#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/zero.h"
#include "trace/base/check.h"

namespace shardscope::plan {
namespace {

// ZeRO-3 (DeepSpeed, partitioned_param_coordinator.py: fetch_sub_module, release_sub_module). Which
// units come next is known from the step before, so a unit that is used is followed by gathers of
// those after it, from forward into backward too, as far as the budgets reach. What is never split
// is as in ZeRO-2.
class Zero3Builder final : public ZeroBuilder {
 public:
  Zero3Builder(const ModelDescription& model, const Policy& policy)
      : ZeroBuilder(model, policy),
        gathers_(model.units.size(), kNone),
        gathered_for_(model.units.size()),
        keeps_(model.units.size()) {}

 protected:
  void StartForward() override {
    if (uses_.empty()) FindUses();
    next_use_ = 0;
  }

  void PreForward(int32_t unit_index) override {
    if (IsSplit(unit_index)) {
      Fetch(unit_index);
    } else {
      ZeroBuilder::PreForward(unit_index);
    }
  }

  void PostForward(int32_t unit_index) override {
    if (IsSplit(unit_index) && !keeps_[static_cast<size_t>(unit_index)]) Free(unit_index);
  }

  void PreBackward(int32_t unit_index) override {
    if (IsSplit(unit_index)) Fetch(unit_index);
  }

  void PostBackward(int32_t unit_index) override {
    if (IsSplit(unit_index) && HasBackward(unit_index)) Free(unit_index);
    if (!IsTrained(unit_index)) return;
    Reduce(unit_index, std::exchange(state(unit_index).gradient, kNone));
  }

  void PostOptimizer(int32_t unit_index, OpIndex optimizer) override {
    if (!IsSplit(unit_index)) ZeroBuilder::PostOptimizer(unit_index, optimizer);
  }

 private:
  // One forward or backward of a unit in a micro-batch.
  struct Use {
    int32_t unit = kNone;
    Phase phase = Phase::kForward;
  };

  bool IsSplit(int32_t unit_index) { return state(unit_index).whole_parameters == kNone; }
  int64_t ElementsOf(int32_t unit_index) const { return UnitElements(unit(unit_index)); }

  // In order, and which units stay gathered between theirs.
  void FindUses() {
    std::vector<int32_t> units;
    for (int32_t index = 0; index < std::ssize(gathers_); ++index) {
      if (IsSplit(index)) units.push_back(index);
    }
    for (const int32_t index : units) uses_.push_back({index, Phase::kForward});
    std::ranges::reverse(units);
    std::ranges::stable_sort(units, std::greater(), [&](int32_t i) { return SpanOf(i).last; });
    for (const int32_t index : units) {
      if (HasBackward(index)) uses_.push_back({index, Phase::kBackward});
    }
    for (const int32_t index : units) {
      keeps_[static_cast<size_t>(index)] =
          HasBackward(index) && (!ReshardsAfterForward(index) ||
                                 ReuseDistance(index) < policy().budgets.max_reuse_distance);
    }
  }

  // Elements of the uses between the unit's forward and its backward.
  int64_t ReuseDistance(int32_t unit_index) const {
    const int32_t last = SpanOf(unit_index).last;
    int64_t elements = 0;
    for (const Use& use : uses_) {
      const Span& span = SpanOf(use.unit);
      const bool is_between = (use.phase == Phase::kForward ? span.first : span.last) > last;
      if (is_between) elements += ElementsOf(use.unit);
    }
    return elements;
  }

  // Gathers the unit unless it is there, lets compute wait for it, and gathers what comes next.
  void Fetch(int32_t unit_index) {
    SHARDSCOPE_CHECK(uses_[next_use_].unit == unit_index);
    if (state(unit_index).parameters == kNone) Gather(next_use_);
    ++next_use_;
    const OpIndex gather = std::exchange(gathers_[static_cast<size_t>(unit_index)], kNone);
    if (gather != kNone) EmitWait(unit_index, gather);
    Prefetch();
  }

  void Prefetch() {
    const ElementBudgets& budgets = policy().budgets;
    int64_t ahead = 0;
    for (size_t index = next_use_; index < uses_.size(); ++index) {
      const int32_t unit_index = uses_[index].unit;
      const bool is_gathered = state(unit_index).parameters != kNone;
      if (is_gathered && gathered_for_[static_cast<size_t>(unit_index)] != index) {
        if (!keeps_[static_cast<size_t>(unit_index)]) return;  // its forward is still to free it
        continue;
      }
      const int64_t elements = ElementsOf(unit_index);
      ahead += elements;
      if (is_gathered) continue;
      if (ahead > budgets.prefetch_bucket_size) return;
      if (live_ + elements > budgets.max_live_parameters) return;
      Gather(index);
    }
  }

  // Straight into the unsharded parameters.
  void Gather(size_t use_index) {
    const auto [unit_index, phase] = uses_[use_index];
    Op gather =
        MakeCollective(OpKind::kAllGather, unit_index, kAllGatherStream, policy().param_dtype);
    gather.phase = phase;
    // No gather may read shards that the last optimizer step still writes.
    const bool after_compute = use_index == 0 || !policy().overlap_comm;
    if (after_compute) gather.dependencies = {AfterStream(kComputeStream)};
    const Shard own = BringShard(unit_index, phase, gather.dependencies);
    if (policy().param_dtype == policy().master_dtype) {
      ReadShard(own, &gather);
    } else {
      Op cast = MakeOp(OpKind::kCast, unit_index, kAllGatherStream);
      cast.phase = phase;
      cast.dependencies = gather.dependencies;
      cast.allocates = cast.writes = gather.reads = gather.frees = {NewBuffer(
          BufferKind::kCastShard, unit_index, ShardBytes(unit_index, policy().param_dtype))};
      ReadShard(own, &cast);
      Emit(std::move(cast));
    }
    const BufferId parameters = NewBuffer(BufferKind::kUnsharded, unit_index,
                                          UnshardedBytes(unit_index, policy().param_dtype));
    gather.allocates = gather.writes = {parameters};
    const OpIndex gathered = Emit(std::move(gather));
    state(unit_index).parameters = parameters;
    gathered_for_[static_cast<size_t>(unit_index)] = use_index;
    live_ += ElementsOf(unit_index);
    if (policy().overlap_comm) {
      gathers_[static_cast<size_t>(unit_index)] = gathered;
    } else {
      EmitWait(unit_index, gathered);
    }
  }

  void Free(int32_t unit_index) {
    EmitReshard(unit_index);
    live_ -= ElementsOf(unit_index);
  }

  std::vector<Use> uses_;  // of one micro-batch
  size_t next_use_ = 0;
  int64_t live_ = 0;                  // elements that are gathered
  std::vector<OpIndex> gathers_;      // by unit: that compute has not waited for; else kNone
  std::vector<size_t> gathered_for_;  // by unit: the use
  std::vector<bool> keeps_;           // by unit: from forward to backward
};

}  // namespace

Schedule BuildZero3(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<Zero3Builder>(model, policy);
}

}  // namespace shardscope::plan
