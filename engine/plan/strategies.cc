#include <algorithm>
#include <array>

#include "engine/plan/builders/fsdp1.h"
#include "engine/plan/builders/fsdp2.h"
#include "engine/plan/builders/no_shard.h"
#include "engine/plan/policy.h"
#include "engine/plan/strategy.h"

namespace shardscope::plan {
namespace {

template <typename Builder>
Schedule Build(const ModelDescription& model, const Policy& policy) {
  return Builder(model, policy).Build();
}

Schedule BuildFsdp(const ModelDescription& model, const Policy& policy) {
  return policy.preset == Preset::kFsdp1 ? Build<Fsdp1Builder>(model, policy)
                                         : Build<Fsdp2Builder>(model, policy);
}

constexpr std::array kStrategies = {
    Strategy{.name = "full",
             .shards = "parameters, gradients and optimizer state",
             .reshards_after_forward = true,
             .build = BuildFsdp},
    Strategy{.name = "grad_op", .shards = "the last two only", .build = BuildFsdp},
    Strategy{.name = "no_shard",
             .shards = "nothing",
             .shards_parameters = false,
             .build = Build<NoShardBuilder>},
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
