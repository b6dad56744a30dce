#include "tests/oracle/reference.h"

#include <vector>

namespace shardscope::oracle {
namespace {

using plan::BufferKind;

class Reference {
 public:
  Reference(const plan::ModelDescription& model, const plan::Policy& policy)
      : model_(model),
        policy_(policy),
        sharded_(policy.strategy->shards_parameters),
        reduced_(model.units.size(), std::vector<Value>(Ranks())) {}

  Value Run() {
    for (int micro_batch = 0; micro_batch < policy_.micro_batches; ++micro_batch) {
      std::vector<std::vector<Value>> gradients;  // by rank, by unit
      for (int rank = 0; rank < policy_.mesh.num_ranks(); ++rank) {
        gradients.push_back(GradientsOf(rank, micro_batch));
      }
      for (size_t unit = 0; unit < model_.units.size(); ++unit) {
        Reduce(unit, gradients, micro_batch == 0);
      }
    }
    return Optimize();
  }

 private:
  size_t Ranks() const { return static_cast<size_t>(policy_.mesh.num_ranks()); }
  int32_t NumSegments() const { return static_cast<int32_t>(model_.segments.size()); }
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

  // Ranks that share shards, and those that hold the same one: of R replicas of S shards, rank r
  // has shard r % S of replica r / S.
  int ShardsOfAReplica() const { return policy_.mesh.size(plan::MeshDimension::kShard); }
  std::vector<int> ShardGroup(int rank) const {
    std::vector<int> group;
    const int first = rank - rank % ShardsOfAReplica();
    for (int i = 0; i < ShardsOfAReplica(); ++i) group.push_back(first + i);
    return group;
  }
  std::vector<int> Replicas(int rank) const {
    std::vector<int> group;
    for (int other = rank % ShardsOfAReplica(); other < policy_.mesh.num_ranks();
         other += ShardsOfAReplica()) {
      group.push_back(other);
    }
    return group;
  }

  Value Parameters(int32_t unit, int rank) const {
    if (!sharded_) return Initial(BufferKind::kParameterShard, unit, rank);
    Value all = Symbol(Term::kGather);
    for (const int from : ShardGroup(rank)) {
      all = Mix(all, Initial(BufferKind::kParameterShard, unit, from));
    }
    return all;
  }

  // Parameters and batch: what forward and backward of a segment both read.
  Value CommonInputs(int32_t segment, int rank, int micro_batch) const {
    Value inputs = 0;
    const int32_t unit = model_.segments[static_cast<size_t>(segment)].unit;
    if (unit != plan::kNone) {
      inputs += OfUnit(BufferKind::kUnsharded, unit, Parameters(unit, rank));
    }
    if (segment == 0 || segment + 1 == NumSegments()) {
      inputs += Input({.kind = BufferKind::kBatch}, Symbol(Term::kBatch, rank, micro_batch));
    }
    return inputs;
  }

  std::vector<Value> GradientsOf(int rank, int micro_batch) const {
    std::vector<Value> activations;  // as inputs of other ops
    for (int32_t segment = 0; segment < NumSegments(); ++segment) {
      Value inputs = CommonInputs(segment, rank, micro_batch);
      if (segment > 0) inputs += activations.back();
      activations.push_back(
          OfSegment(BufferKind::kActivation, segment, Symbol(Term::kForward, segment, inputs)));
    }
    std::vector<Value> gradients(model_.units.size(), kPoison);
    Value incoming = 0;
    for (int32_t segment = NumSegments() - 1; segment >= 0; --segment) {
      const auto at = static_cast<size_t>(segment);
      Value inputs = CommonInputs(segment, rank, micro_batch) + activations[at] + incoming;
      if (segment > 0) inputs += activations[at - 1];
      const Value made = Symbol(Term::kBackward, segment, inputs);
      if (model_.segments[at].unit != plan::kNone) {
        Value& gradient = gradients[static_cast<size_t>(model_.segments[at].unit)];
        const Value own = Mix(made, static_cast<Value>(BufferKind::kGradient));
        gradient = gradient == kPoison ? own : Symbol(Term::kAdd, gradient, own);
      }
      incoming = OfSegment(BufferKind::kActivationGradient, segment,
                           Mix(made, static_cast<Value>(BufferKind::kActivationGradient)));
    }
    return gradients;
  }

  void Reduce(size_t unit, const std::vector<std::vector<Value>>& gradients, bool first) {
    std::vector<Value> values;
    for (const std::vector<Value>& of_rank : gradients) values.push_back(of_rank[unit]);
    std::vector<Value> scattered;  // by rank
    for (int rank = 0; rank < policy_.mesh.num_ranks(); ++rank) {
      Value sum = Symbol(Term::kReduceScatter);
      for (const int from : ShardGroup(rank)) sum = Mix(sum, values[static_cast<size_t>(from)]);
      scattered.push_back(Mix(sum, static_cast<Value>(rank)));
    }
    for (size_t rank = 0; rank < Ranks(); ++rank) {
      Value own = AllReduce(values);
      if (sharded_) {
        std::vector<Value> of_replicas;
        for (const int other : Replicas(static_cast<int>(rank))) {
          of_replicas.push_back(scattered[static_cast<size_t>(other)]);
        }
        own = policy_.strategy->replicates_shards ? AllReduce(of_replicas) : scattered[rank];
      }
      Value& shard = reduced_[unit][rank];
      shard = first ? own : Symbol(Term::kAdd, shard, own);
    }
  }

  Value Norm(size_t rank) const {
    Value inputs = 0;
    for (size_t unit = 0; unit < reduced_.size(); ++unit) {
      inputs +=
          OfUnit(BufferKind::kGradientShard, static_cast<int32_t>(unit), reduced_[unit][rank]);
    }
    return Symbol(Term::kNorm, inputs);
  }

  Value Optimize() const {
    Value result = 0;
    for (size_t rank = 0; rank < Ranks(); ++rank) {
      std::vector<Value> norms;
      for (const int other : ShardGroup(static_cast<int>(rank))) {
        norms.push_back(Norm(static_cast<size_t>(other)));
      }
      const Value global = AllReduce(norms);
      const Value norm = Input({.kind = BufferKind::kNorm}, sharded_ ? global : Norm(rank));
      for (int32_t unit = 0; unit < static_cast<int32_t>(model_.units.size()); ++unit) {
        const auto initial = [&](BufferKind kind) {
          return OfUnit(kind, unit, Initial(kind, unit, static_cast<int>(rank)));
        };
        const Value gradient = reduced_[static_cast<size_t>(unit)][rank];
        const Value made =
            Symbol(Term::kOptimizer, norm + OfUnit(BufferKind::kGradientShard, unit, gradient) +
                                         initial(BufferKind::kParameterShard) +
                                         initial(BufferKind::kOptimizerState));
        const auto add = [&](BufferKind kind, Value value) {
          result += Symbol(Term::kInput, kind, unit, rank, value);
        };
        add(BufferKind::kGradientShard, gradient);
        for (const BufferKind kind : {BufferKind::kParameterShard, BufferKind::kOptimizerState}) {
          add(kind, Mix(made, static_cast<Value>(kind)));
        }
      }
    }
    return result;
  }

  const plan::ModelDescription& model_;
  const plan::Policy& policy_;
  const bool sharded_;
  std::vector<std::vector<Value>> reduced_;  // gradient shards, by unit, by rank
};

}  // namespace

Value ReferenceResult(const plan::ModelDescription& model, const plan::Policy& policy) {
  return Reference(model, policy).Run();
}

}  // namespace shardscope::oracle
