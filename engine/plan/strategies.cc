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

constexpr std::array kStrategies = {
#define SHARDSCOPE_STRATEGY(strategy, builder, what, ...) \
  Strategy{.name = #strategy, .shards = what, .build = builder, __VA_ARGS__},
#include "engine/plan/strategy_list.inc"
#undef SHARDSCOPE_STRATEGY
};

// The exporter to Kineto's form cannot ask for the trait.
static_assert(std::ranges::all_of(kStrategies, [](const Strategy& strategy) {
  return strategy.shards_as_fsdp() == IsFsdpStrategy(strategy.name);
}));

}  // namespace

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
