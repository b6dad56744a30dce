#include "tests/oracle/reference.h"

#include <algorithm>
#include <vector>

namespace shardscope::oracle {
namespace {

using plan::BufferKind;

class Reference {
 public:
  Reference(const plan::ModelDescription& model, const plan::Policy& policy)
      : model_(model),
        policy_(policy),
        sharded_(policy.strategy->shards_optimizer),
        whole_gradients_(sharded_ && !policy.strategy->shards_gradients),
        mixes_(policy.param_dtype != policy.master_dtype),
        keeps_(plan::WhatForwardKeeps(model, policy.checkpointing)),
        sums_(model.units.size(), std::vector<Value>(Ranks())),
        reduced_(model.units.size(), std::vector<Value>(Ranks())) {}

  Value Run() {
    for (int micro_batch = 0; micro_batch < policy_.micro_batches; ++micro_batch) {
      const std::vector<std::vector<Value>> gradients = GradientsOf(micro_batch);
      for (size_t unit = 0; unit < model_.units.size(); ++unit) {
        if (!IsTrained(unit)) continue;
        if (ReducesOnce()) {
          AddUp(unit, gradients, micro_batch == 0);
        } else {
          std::vector<Value> values;
          for (const std::vector<Value>& of_rank : gradients) values.push_back(of_rank[unit]);
          Reduce(unit, values, micro_batch);
        }
      }
    }
    for (size_t unit = 0; ReducesOnce() && unit < model_.units.size(); ++unit) {
      if (IsTrained(unit)) Reduce(unit, sums_[unit], 0);
    }
    for (size_t unit = 0; HasParts() && unit < model_.units.size(); ++unit) {
      // Each rank's is of its part of the sequence, or of a layer.
      if (HasWholeParameters(unit)) reduced_[unit] = Summed(reduced_[unit]);
    }
    return Optimize();
  }

 private:
  size_t Ranks() const { return static_cast<size_t>(policy_.mesh.num_ranks()); }
  bool IsTrained(size_t unit) const { return !model_.units[unit].parameters.front().is_frozen; }
  // The last one before which all is frozen.
  int32_t FirstTrained() const {
    int32_t first = 0;
    bool has_frozen = false;
    for (const plan::Segment& segment : model_.segments)
      has_frozen |= !segment.frozen_units.empty();
    const auto at = [&]() -> const plan::Segment& {
      return model_.segments[static_cast<size_t>(first)];
    };
    while (has_frozen && at().frozen_units.size() == at().units.size()) ++first;
    return first;
  }
  int32_t NumSegments() const { return static_cast<int32_t>(model_.segments.size()); }
  // Micro-batches add up on the rank before any communication.
  bool ReducesOnce() const {
    return policy_.accumulation.sync == plan::GradientSync::kNoSync || whole_gradients_ ||
           policy_.strategy->name == "ddp" || IsAlone();
  }
  // No rank has the same parameters as another.
  bool IsAlone() const { return (policy_.strategy->dimensions & plan::kDataDimensions) == 0; }
  int Stages() const { return policy_.mesh.size(plan::MeshDimension::kPipeline); }
  int RanksOfAStage() const { return policy_.mesh.num_ranks() / Stages(); }
  int32_t StageOf(int32_t unit) const {
    for (const plan::Segment& segment : model_.segments) {
      if (std::ranges::find(segment.units, unit) != segment.units.end()) return segment.stage;
    }
    return 0;
  }
  // Whether the rank has the unit. In a pipeline rank r has every stage that is r modulo its ranks.
  bool Has(int rank, int32_t unit) const {
    if (policy_.strategy->is_rooted) return rank == 0;
    return StageOf(unit) % Stages() == rank / RanksOfAStage();
  }
  // The rank that has what `rank` would need of the unit.
  int OwnerOf(int rank, int32_t unit) const {
    if (policy_.strategy->is_rooted) return 0;
    return rank % RanksOfAStage() + StageOf(unit) % Stages() * RanksOfAStage();
  }
  // The rank's slice of the gradient is that of the whole one.
  bool ReducesInPlace() const {
    return whole_gradients_ && !mixes_ && policy_.reduce_dtype == policy_.master_dtype &&
           !policy_.updates_on_host();
  }
  static Value Initial(BufferKind kind, int32_t unit, int rank) {
    return Symbol(Term::kInitial, kind, unit, rank);
  }
  static Value OfUnit(BufferKind kind, int32_t unit, Value value) {
    return Input({.kind = kind, .unit = unit}, value);
  }
  static Value OfSegment(BufferKind kind, int32_t segment, Value value) {
    return Input({.kind = kind, .segment = segment}, value);
  }

  // Over the ranks, in rank order; of one rank nothing changes.
  static Value AllReduce(const std::vector<Value>& values) {
    if (values.size() == 1) return values.front();
    Value sum = Symbol(Term::kAllReduce);
    for (const Value value : values) sum = Mix(sum, value);
    return sum;
  }

  // Ranks that share shards, and those that hold the same one: of R replicas of S shards of T
  // tensor ranks, rank r is of shard r / T % S of replica r / (S T).
  int TensorRanks() const { return policy_.mesh.size(plan::MeshDimension::kTensor); }
  int Shards() const { return policy_.mesh.size(plan::MeshDimension::kShard); }
  int RanksOfAReplica() const { return Shards() * TensorRanks(); }
  std::vector<int> TensorGroup(int rank) const {
    std::vector<int> group;
    const int first = rank - rank % TensorRanks();
    for (int i = 0; i < TensorRanks(); ++i) group.push_back(first + i);
    return group;
  }
  std::vector<int> ShardGroup(int rank) const {
    std::vector<int> group;
    const int first = rank - rank % RanksOfAReplica() + rank % TensorRanks();
    for (int i = 0; i < Shards(); ++i) group.push_back(first + i * TensorRanks());
    return group;
  }
  std::vector<int> Replicas(int rank) const {
    std::vector<int> group;
    const int first = rank - rank % RanksOfAStage();
    for (int other = first + rank % RanksOfAReplica(); other < first + RanksOfAStage();
         other += RanksOfAReplica()) {
      group.push_back(other);
    }
    return group;
  }

  Value Parameters(int32_t unit, int rank) const {
    const int owner = OwnerOf(rank, unit);
    if (KeepsWhole(unit)) return Initial(BufferKind::kUnsharded, unit, owner);
    if (!sharded_) return Initial(BufferKind::kParameterShard, unit, owner);
    Value all = Symbol(Term::kGather);
    for (const int from : ShardGroup(owner)) {
      all = Mix(all, Initial(BufferKind::kParameterShard, unit, from));
    }
    return all;
  }

  // Parameters and batch: what forward and backward of a segment both read.
  Value CommonInputs(int32_t segment, int rank, int micro_batch) const {
    Value inputs = 0;
    for (const int32_t unit : model_.segments[static_cast<size_t>(segment)].units) {
      inputs += OfUnit(BufferKind::kUnsharded, unit, Parameters(unit, rank));
    }
    if (segment == 0 || segment + 1 == NumSegments()) {
      const int samples = SamplesOf(policy_.mesh, rank);
      const Value batch = policy_.strategy->is_rooted
                              ? Mix(Symbol(Term::kInputs, micro_batch), static_cast<Value>(samples))
                              : Symbol(Term::kBatch, samples, micro_batch);
      inputs += Input({.kind = BufferKind::kBatch}, batch);
    }
    return inputs;
  }

  bool SharesSequence() const { return policy_.units.sequence_parallel; }
  // Tensor ranks each have a part of the gradient of what all of them have.
  bool HasParts() const { return SharesSequence() || model_.has_partial_gradients; }
  bool HasWholeParameters(size_t unit) const {
    return std::ranges::any_of(model_.units[unit].parameters, [](const auto& parameter) {
      return parameter.split == plan::TensorSplit::kWhole && !parameter.is_frozen;
    });
  }

  // By rank: each has a part of the sequence, and gets the others'; or of the sum of what they have
  // its part.
  std::vector<Value> OfTensorGroups(Term term, int32_t segment,
                                    const std::vector<Value>& values) const {
    std::vector<Value> results;
    const int stage = model_.segments[static_cast<size_t>(segment)].stage % Stages();
    for (int rank = 0; rank < policy_.mesh.num_ranks(); ++rank) {
      Value all = Symbol(term);
      for (const int other : TensorGroup(rank)) all = Mix(all, values[static_cast<size_t>(other)]);
      // Each is told apart by the rank that runs the segment.
      const int runs = rank % RanksOfAStage() + stage * RanksOfAStage();
      results.push_back(term == Term::kReduceScatter ? Mix(all, static_cast<Value>(runs)) : all);
    }
    return results;
  }

  // By rank: each has its part, of which the sum is what all of them go on with.
  std::vector<Value> Summed(const std::vector<Value>& parts) const {
    std::vector<Value> sums;
    for (int rank = 0; rank < policy_.mesh.num_ranks(); ++rank) {
      std::vector<Value> of_group;
      for (const int other : TensorGroup(rank))
        of_group.push_back(parts[static_cast<size_t>(other)]);
      sums.push_back(AllReduce(of_group));
    }
    return sums;
  }

  bool IsSplit(int32_t segment) const {
    return TensorRanks() > 1 && model_.segments[static_cast<size_t>(segment)].is_split;
  }

  // By rank, as inputs of other ops: what a segment's norm puts out, gathered; 0 where forward does
  // that. `inputs`: of the norm.
  std::vector<Value> NormsOf(int32_t segment, const std::vector<Value>& inputs) const {
    if (!SharesSequence() || !IsSplit(segment)) return std::vector<Value>(Ranks(), 0);
    std::vector<Value> own;
    for (const Value input : inputs) own.push_back(Symbol(Term::kNormForward, segment, input));
    std::vector<Value> norms = OfTensorGroups(Term::kGather, segment, own);
    for (Value& norm : norms) norm = OfSegment(BufferKind::kNormOutput, segment, norm);
    return norms;
  }

  // By segment and rank, as inputs of other ops: of the next segment, and of the own backward.
  struct Activations {
    std::vector<std::vector<Value>> outputs;
    std::vector<std::vector<Value>> saved;
  };
  Activations ActivationsOf(int micro_batch) const {
    std::vector<std::vector<Value>> activations;
    std::vector<std::vector<Value>> all_saved;
    for (int32_t segment = 0; segment < NumSegments(); ++segment) {
      std::vector<Value> inputs;
      std::vector<Value> made;
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        inputs.push_back(CommonInputs(segment, static_cast<int>(rank), micro_batch));
        if (segment > 0) inputs.back() += activations.back()[rank];
      }
      const std::vector<Value> norms = NormsOf(segment, inputs);
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        made.push_back(Symbol(Term::kForward, segment, inputs[rank] + norms[rank]));
      }
      const std::vector<Value> parts = made;
      if (IsSplit(segment)) {
        made =
            SharesSequence() ? OfTensorGroups(Term::kReduceScatter, segment, made) : Summed(made);
      }
      for (Value& value : made) value = OfSegment(BufferKind::kActivation, segment, value);
      std::vector<Value> saved = made;
      const plan::Keeps keeps = keeps_[static_cast<size_t>(segment)];
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        if (keeps == plan::Keeps::kProducts) {
          const Value rest =
              Symbol(Term::kRecompute, segment, inputs[rank] + norms[rank] + made[rank]);
          saved[rank] += OfSegment(BufferKind::kRecomputed, segment, rest);
        }
        // At a block's end nobody adds up again what nobody needs.
        if (keeps == plan::Keeps::kOutput && !plan::GoOnTogether(model_, keeps_, segment)) {
          saved[rank] = OfSegment(BufferKind::kRecomputed, segment, parts[rank]);
        }
      }
      activations.push_back(std::move(made));
      all_saved.push_back(std::move(saved));
    }
    return {activations, all_saved};
  }

  // By rank, by unit.
  std::vector<std::vector<Value>> GradientsOf(int micro_batch) const {
    const auto [activations, saved] = ActivationsOf(micro_batch);
    std::vector<std::vector<Value>> gradients(Ranks(),
                                              std::vector<Value>(model_.units.size(), kPoison));
    std::vector<Value> incoming;  // of the output, by rank; none of the last segment
    for (int32_t segment = NumSegments() - 1; segment >= FirstTrained(); --segment) {
      const auto at = static_cast<size_t>(segment);
      const auto add = [&](size_t rank, Value made) {
        for (const int32_t unit : model_.segments[at].units) {
          const auto& frozen = model_.segments[at].frozen_units;
          if (std::ranges::find(frozen, unit) != frozen.end()) continue;
          Value& gradient = gradients[rank][static_cast<size_t>(unit)];
          const Value own = Mix(made, static_cast<Value>(BufferKind::kGradient));
          gradient = gradient == kPoison ? own : Symbol(Term::kAdd, gradient, own);
        }
      };
      std::vector<Value> inputs;
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        inputs.push_back(CommonInputs(segment, static_cast<int>(rank), micro_batch));
        if (segment > 0) inputs.back() += activations[at - 1][rank];
      }
      const std::vector<Value> norms = NormsOf(segment, inputs);
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        if (segment > 0) inputs[rank] -= activations[at - 1][rank];
        inputs[rank] += saved[at][rank] + norms[rank];
      }
      const auto of_output = [&](const std::vector<Value>& values, size_t rank) {
        if (values.empty()) return Value{0};
        return OfSegment(BufferKind::kActivationGradient, segment + 1, values[rank]);
      };
      Term term = Term::kBackward;
      if (IsSplit(segment)) {
        std::vector<Value> parts;
        const bool gathers = SharesSequence() && !incoming.empty();
        const std::vector<Value> whole =
            gathers ? OfTensorGroups(Term::kGather, segment, incoming) : incoming;
        for (size_t rank = 0; rank < Ranks(); ++rank) {
          const Value made =
              Symbol(Term::kBackward, segment, inputs[rank] + of_output(whole, rank));
          add(rank, made);
          parts.push_back(Mix(made, static_cast<Value>(BufferKind::kNormGradient)));
          if (!policy_.tensor_async) continue;
          const Value hidden =
              OfSegment(BufferKind::kHiddenGradient, segment,
                        Mix(made, static_cast<Value>(BufferKind::kHiddenGradient)));
          add(rank, Symbol(Term::kWeightBackward, segment, saved[at][rank] + norms[rank] + hidden));
        }
        const std::vector<Value> sums =
            SharesSequence() ? OfTensorGroups(Term::kReduceScatter, segment, parts) : Summed(parts);
        for (size_t rank = 0; rank < Ranks(); ++rank) {
          inputs[rank] += OfSegment(BufferKind::kNormGradient, segment, sums[rank]);
        }
        term = Term::kNormBackward;
      }
      std::vector<Value> outgoing;
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        if (segment > 0) inputs[rank] += activations[at - 1][rank];
        const Value made = Symbol(term, segment, inputs[rank] + of_output(incoming, rank));
        add(rank, made);
        outgoing.push_back(Mix(made, static_cast<Value>(BufferKind::kActivationGradient)));
      }
      incoming = std::move(outgoing);
    }
    return gradients;
  }

  void AddUp(size_t unit, const std::vector<std::vector<Value>>& gradients, bool first) {
    for (size_t rank = 0; rank < Ranks(); ++rank) {
      Value& sum = sums_[unit][rank];
      sum = first ? gradients[rank][unit] : Symbol(Term::kAdd, sum, gradients[rank][unit]);
    }
  }

  void Reduce(size_t unit, const std::vector<Value>& values, int micro_batch) {
    std::vector<Value> scattered;  // by rank
    for (int rank = 0; rank < policy_.mesh.num_ranks(); ++rank) {
      Value sum = Symbol(Term::kReduceScatter);
      for (const int from : ShardGroup(rank)) sum = Mix(sum, values[static_cast<size_t>(from)]);
      scattered.push_back(Mix(sum, static_cast<Value>(rank)));
    }
    if (policy_.accumulation.sync == plan::GradientSync::kReduceScatterOnly) {
      std::vector<Value>& sums = sums_[unit];
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        sums[rank] =
            micro_batch == 0 ? scattered[rank] : Symbol(Term::kAdd, sums[rank], scattered[rank]);
      }
      scattered = sums;
    }
    for (size_t rank = 0; rank < Ranks(); ++rank) {
      std::vector<Value> of_stage;
      for (const int other : Replicas(static_cast<int>(rank))) {
        of_stage.push_back(values[static_cast<size_t>(other)]);
      }
      Value own = AllReduce(of_stage);
      if (sharded_) {
        std::vector<Value> of_replicas;
        for (const int other : Replicas(static_cast<int>(rank))) {
          of_replicas.push_back(scattered[static_cast<size_t>(other)]);
        }
        own = policy_.strategy->replicates_shards() ? AllReduce(of_replicas) : scattered[rank];
      } else if (IsAlone()) {
        own = values[rank];
      }
      Value& shard = reduced_[unit][rank];
      const bool is_sum = policy_.accumulation.sync == plan::GradientSync::kReduceScatterOnly;
      shard = micro_batch == 0 || is_sum ? own : Symbol(Term::kAdd, shard, own);
    }
  }

  // Ranks that have different parts of the gradient.
  std::vector<int> NormGroup(int rank) const {
    std::vector<int> group;
    const int replica = rank % RanksOfAStage() / RanksOfAReplica();
    for (int stage = 0; stage < Stages(); ++stage) {
      const int first = stage * RanksOfAStage() + replica * RanksOfAReplica();
      for (int i = 0; i < RanksOfAReplica(); ++i) group.push_back(first + i);
    }
    return group;
  }

  // Of all gradients that the rank has.
  Value OfGradients(Term term, size_t rank) const {
    Value inputs = 0;
    for (size_t unit = 0; unit < reduced_.size(); ++unit) {
      if (!Has(static_cast<int>(rank), static_cast<int32_t>(unit)) || !IsTrained(unit)) continue;
      inputs +=
          OfUnit(BufferKind::kGradientShard, static_cast<int32_t>(unit), reduced_[unit][rank]);
    }
    return Symbol(term, inputs);
  }

  // What the optimizer of a rank reads of that.
  Value Scalar(Term term, BufferKind kind, size_t rank) const {
    std::vector<Value> values;
    for (const int other : NormGroup(static_cast<int>(rank))) {
      values.push_back(OfGradients(term, static_cast<size_t>(other)));
    }
    const bool is_shared = sharded_ || Stages() > 1 || TensorRanks() > 1;
    return Input({.kind = kind}, is_shared ? AllReduce(values) : OfGradients(term, rank));
  }

  Value Optimize() const {
    std::vector<std::vector<Value>> updated(model_.units.size());
    for (size_t rank = 0; rank < Ranks(); ++rank) {
      Value scalars = Scalar(Term::kNorm, BufferKind::kNorm, rank);
      if (policy_.update.has_scaler) scalars += Scalar(Term::kUnscale, BufferKind::kFoundInf, rank);
      for (int32_t unit = 0; unit < static_cast<int32_t>(model_.units.size()); ++unit) {
        const auto initial = [&](BufferKind kind) {
          return OfUnit(kind, unit, Initial(kind, unit, static_cast<int>(rank)));
        };
        const Value gradient = reduced_[static_cast<size_t>(unit)][rank];
        // Of the host's updates without clipping only the last one of a rank knows the norm, those
        // of what ranks keep whole, and those whose gradients tensor ranks add up at the end.
        const bool knows_norm = policy_.offload != plan::Offload::kAll || policy_.update.clips ||
                                !IsTrained(static_cast<size_t>(unit)) ||
                                unit == FirstUnitOf(unit) || KeepsWhole(unit) || HasParts();
        updated[static_cast<size_t>(unit)].push_back(
            Symbol(Term::kOptimizer,
                   (knows_norm ? scalars : 0) + OfUnit(BufferKind::kGradientShard, unit, gradient) +
                       initial(Master(unit)) +
                       (policy_.update.state.empty() ? 0 : initial(BufferKind::kOptimizerState))));
      }
    }
    return Kept(updated);
  }

  // Of those that the same ranks have.
  int32_t FirstUnitOf(int32_t unit) const {
    int32_t first = 0;
    while (StageOf(first) % Stages() != StageOf(unit) % Stages() ||
           !IsTrained(static_cast<size_t>(first))) {
      ++first;
    }
    return first;
  }

  // All of its parameters, though a slice only of its optimizer state.
  bool KeepsWhole(int32_t unit) const {
    if (!sharded_ || !policy_.strategy->shards_parameters) return sharded_;
    for (const plan::Parameter& parameter : model_.units[static_cast<size_t>(unit)].parameters) {
      if (plan::NumElements(parameter.shape) >= policy_.units.persistence_threshold) return false;
    }
    return true;
  }

  BufferKind Master(int32_t unit) const {
    const bool has_slice = mixes_ || HasHostMaster(unit);
    return KeepsWhole(unit) && !has_slice ? BufferKind::kUnsharded : BufferKind::kParameterShard;
  }

  // Apart from what the rank has for itself.
  bool HasHostMaster(int32_t unit) const {
    const bool is_apart = policy_.offload == plan::Offload::kOptimizer ||
                          (policy_.offload == plan::Offload::kAll && KeepsWhole(unit));
    return is_apart && IsTrained(static_cast<size_t>(unit));
  }

  // What is in all persistent buffers at the end. `updated`: by unit, by rank.
  Value Kept(const std::vector<std::vector<Value>>& updated) const {
    Value result = 0;
    for (size_t unit = 0; unit < model_.units.size(); ++unit) {
      const auto index = static_cast<int32_t>(unit);
      const BufferKind master = Master(index);
      for (size_t rank = 0; rank < Ranks(); ++rank) {
        if (!Has(static_cast<int>(rank), static_cast<int32_t>(unit))) continue;
        const auto add = [&](BufferKind kind, Value value) {
          result += Symbol(Term::kInput, kind, unit, rank, value);
        };
        const auto own = [&](BufferKind kind, size_t of_rank) {
          return Mix(updated[unit][of_rank], static_cast<Value>(kind));
        };
        if (!IsTrained(unit)) {  // as it was
          for (const BufferKind kind : {BufferKind::kParameterShard, BufferKind::kUnsharded}) {
            if (kind == BufferKind::kUnsharded ? !KeepsWhole(index) : kind != master) continue;
            add(kind, Initial(kind, index, static_cast<int>(rank)));
          }
          continue;
        }
        if (!ReducesInPlace()) add(BufferKind::kGradientShard, reduced_[unit][rank]);
        if (whole_gradients_) {
          add(BufferKind::kGradient, (ReducesInPlace() ? reduced_ : sums_)[unit][rank]);
        }
        if (!policy_.update.state.empty()) {
          add(BufferKind::kOptimizerState, own(BufferKind::kOptimizerState, rank));
        }
        if (master == BufferKind::kParameterShard) add(master, own(master, rank));
        if (!KeepsWhole(index)) {
          if (HasHostMaster(index)) add(master, own(master, rank));  // the copy of it
          continue;
        }
        Value all = Symbol(Term::kGather);
        for (const int from : ShardGroup(static_cast<int>(rank))) {
          all = Mix(all, own(master, static_cast<size_t>(from)));
        }
        add(BufferKind::kUnsharded, all);
      }
    }
    return result;
  }

  const plan::ModelDescription& model_;
  const plan::Policy& policy_;
  const bool sharded_;  // the optimizer's state at least
  const bool whole_gradients_;
  const bool mixes_;
  const std::vector<plan::Keeps> keeps_;
  std::vector<std::vector<Value>> sums_;     // where micro-batches add up first: as reduced_
  std::vector<std::vector<Value>> reduced_;  // gradient shards, by unit, by rank
};

}  // namespace

Value ReferenceResult(const plan::ModelDescription& model, const plan::Policy& policy) {
  return Reference(model, policy).Run();
}

}  // namespace shardscope::oracle
