#include <algorithm>
#include <array>

#include "engine/plan/builders/builders.h"
#include "engine/plan/policy.h"
#include "engine/plan/strategy.h"

namespace shardscope::plan {
namespace {

Schedule BuildFsdp(const ModelDescription& model, const Policy& policy) {
  return policy.preset == Preset::kFsdp1 ? BuildFsdp1(model, policy) : BuildFsdp2(model, policy);
}

constexpr std::array kStrategies = {
    Strategy{.name = "full",
             .shards = "parameters, gradients and optimizer state",
             .reshards_after_forward = true,
             .build = BuildFsdp},
    Strategy{.name = "grad_op", .shards = "the last two only", .build = BuildFsdp},
    Strategy{
        .name = "no_shard", .shards = "nothing", .shards_parameters = false, .build = BuildNoShard},
    Strategy{.name = "hybrid",
             .shards = "as full inside mesh.shard, and mesh.replicate copies of that",
             .replicates_shards = true,
             .reshards_after_forward = true,
             .build = BuildFsdp},
    Strategy{.name = "hybrid_grad_op",
             .shards = "as grad_op inside mesh.shard, and mesh.replicate copies of that",
             .replicates_shards = true,
             .build = BuildFsdp},
};

}  // namespace

std::span<const Strategy> Strategies() { return kStrategies; }

const Strategy* FindStrategy(std::string_view name) {
  const auto found = std::ranges::find(kStrategies, name, &Strategy::name);
  return found == kStrategies.end() ? nullptr : &*found;
}

const Strategy& VariantThat(bool reshards_after_forward, const Strategy& strategy) {
  return *std::ranges::find_if(kStrategies, [&](const Strategy& other) {
    return other.reshards_after_forward == reshards_after_forward &&
           other.shards_parameters == strategy.shards_parameters &&
           other.replicates_shards == strategy.replicates_shards;
  });
}

}  // namespace shardscope::plan
