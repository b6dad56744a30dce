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
};

}  // namespace

std::span<const Strategy> Strategies() { return kStrategies; }

const Strategy* FindStrategy(std::string_view name) {
  const auto found = std::ranges::find(kStrategies, name, &Strategy::name);
  return found == kStrategies.end() ? nullptr : &*found;
}

const Strategy& FirstStrategyThat(bool reshards_after_forward) {
  return *std::ranges::find(kStrategies, reshards_after_forward, &Strategy::reshards_after_forward);
}

}  // namespace shardscope::plan
