#include <algorithm>
#include <array>

#include "engine/plan/builders/builders.h"
#include "engine/plan/policy.h"
#include "engine/plan/strategy.h"
#include "trace/base/fsdp_strategies.h"

namespace shardscope::plan {
namespace {

constexpr MeshDimensions kPipeline = Only(MeshDimension::kPipeline);
constexpr MeshDimensions kReplicate = Only(MeshDimension::kReplicate);
constexpr MeshDimensions kShard = Only(MeshDimension::kShard);
constexpr MeshDimensions kTensor = Only(MeshDimension::kTensor);

Schedule BuildFsdp(const ModelDescription& model, const Policy& policy) {
  switch (policy.preset) {
    case Preset::kFsdp1:
      return BuildFsdp1(model, policy);
    case Preset::kDoubleBuffer:
      return BuildDoubleBuffer(model, policy);
    case Preset::kFsdp2:
      break;
  }
  return BuildFsdp2(model, policy);
}

constexpr std::array kStrategies = {
    Strategy{.name = "full",
             .shards = "parameters, gradients and optimizer state",
             .dimensions = kShard | kPipeline | kTensor,
             .reshards_after_forward = true,
             .advice_order = 5,
             .build = BuildFsdp},
    Strategy{.name = "grad_op",
             .shards = "the last two only",
             .dimensions = kShard | kPipeline | kTensor,
             .build = BuildFsdp},
    Strategy{.name = "no_shard",
             .shards = "nothing",
             .dimensions = kReplicate,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .build = BuildNoShard},
    Strategy{.name = "hybrid",
             .shards = "as full inside mesh.shard, and mesh.replicate copies of that",
             .dimensions = kShard | kReplicate | kPipeline | kTensor,
             .reshards_after_forward = true,
             .build = BuildFsdp},
    Strategy{.name = "hybrid_grad_op",
             .shards = "as grad_op inside mesh.shard, and mesh.replicate copies of that",
             .dimensions = kShard | kReplicate | kPipeline | kTensor,
             .build = BuildFsdp},
    Strategy{.name = "single",
             .shards = "nothing, and there is one rank, which sends nothing",
             .dimensions = 0,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .has_presets = false,
             .build = BuildSingle},
    Strategy{.name = "model_parallel",
             .shards = "layers, of which each rank has some, and one micro-batch goes at a time",
             .dimensions = kPipeline,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .has_presets = false,
             .overlaps_stages = false,
             .build = BuildSingle},
    Strategy{.name = "pipeline",
             .shards = "layers, of which each rank has some, and micro-batches follow each other",
             .dimensions = kPipeline | kTensor,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .has_presets = false,
             .build = BuildSingle},
    Strategy{.name = "tensor",
             .shards = "attention and MLP, of which each rank has some heads and columns",
             .dimensions = kTensor,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .has_presets = false,
             .build = BuildSingle},
    Strategy{.name = "data_parallel",
             .shards = "nothing, rank 0 has the model and sends it to the others in each step",
             .dimensions = kReplicate,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .has_presets = false,
             .is_rooted = true,
             .build = BuildDataParallel},
    Strategy{.name = "ddp",
             .shards = "nothing, gradients are all-reduced in buckets",
             .dimensions = kReplicate | kPipeline | kTensor,
             .shards_parameters = false,
             .shards_gradients = false,
             .shards_optimizer = false,
             .wraps = false,
             .has_presets = false,
             .advice_order = 1,
             .build = BuildDdp},
    Strategy{.name = "zero1",
             .shards = "optimizer state",
             .dimensions = kShard | kPipeline,
             .shards_parameters = false,
             .shards_gradients = false,
             .wraps = false,
             .has_presets = false,
             .advice_order = 2,
             .build = BuildZero},
    Strategy{.name = "zero2",
             .shards = "optimizer state and gradients",
             .shards_parameters = false,
             .wraps = false,
             .has_presets = false,
             .advice_order = 3,
             .build = BuildZero},
    Strategy{.name = "zero3",
             .shards = "as full, gathered ahead by a budget of elements",
             .has_presets = false,
             .reshards_after_forward = true,
             .has_element_budgets = true,
             .advice_order = 4,
             .build = BuildZero3},
};

// The exporter to Kineto's form cannot ask for the trait.
static_assert(std::ranges::all_of(kStrategies, [](const Strategy& strategy) {
  return strategy.shards_as_fsdp() == IsFsdpStrategy(strategy.name);
}));

}  // namespace

Mesh Strategy::MeshOf(int num_ranks) const {
  MeshDimension along =
      Uses(MeshDimension::kPipeline) ? MeshDimension::kPipeline : MeshDimension::kTensor;
  if (Uses(MeshDimension::kReplicate)) along = MeshDimension::kReplicate;
  if (Uses(MeshDimension::kShard)) along = MeshDimension::kShard;
  return plan::MeshOf(along, num_ranks);
}

std::span<const Strategy> Strategies() { return kStrategies; }

const Strategy* FindStrategy(std::string_view name) {
  const auto found = std::ranges::find(kStrategies, name, &Strategy::name);
  return found == kStrategies.end() ? nullptr : &*found;
}

const Strategy& VariantThat(bool reshards_after_forward, const Strategy& strategy) {
  const auto found = std::ranges::find_if(kStrategies, [&](const Strategy& other) {
    return other.reshards_after_forward == reshards_after_forward && other.shards_parameters &&
           strategy.shards_parameters && other.dimensions == strategy.dimensions;
  });
  return found == kStrategies.end() ? strategy : *found;
}

}  // namespace shardscope::plan
