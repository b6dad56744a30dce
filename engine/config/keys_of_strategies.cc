// Which keys go with which strategy.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "engine/config/rules.h"
#include "engine/plan/policy_words.h"
#include "engine/plan/state.h"

namespace shardscope::config {

bool IsOfAccumulation(std::string_view key) {
  return std::ranges::find(kAccumulationKeys, key) != std::end(kAccumulationKeys);
}

bool Applies(std::string_view key, const plan::Strategy& strategy, std::string_view preset) {
  const std::optional<plan::Preset> chosen = plan::ValueOf(plan::kPresetWords, preset);
  const bool has_slots = chosen && plan::HasSlots(*chosen, strategy);
  if (has_slots && key.starts_with("prefetch.")) return false;  // one unit ahead, always
  if (key == "preset") return strategy.has_presets;
  if (IsOfAccumulation(key)) {
    return strategy.shards_as_fsdp() && !has_slots;
  }
  if (key == "reshard_after_forward" || key.starts_with("prefetch.")) {
    return strategy.shards_parameters && !strategy.has_element_budgets;
  }
  if (key.starts_with("unit.")) return strategy.wraps;
  if (key == "comm.communicators" || key == "mesh.shard") {
    return strategy.Uses(plan::MeshDimension::kShard);
  }
  if (key == "mesh.pipeline") return strategy.Uses(plan::MeshDimension::kPipeline);
  if (key.starts_with("pipeline.")) {
    return strategy.overlaps_stages && strategy.Uses(plan::MeshDimension::kPipeline);
  }
  if (const auto dimension = DimensionOfLink(key)) return strategy.Uses(*dimension);
  if (key == "mesh.tensor" || key.starts_with("tensor.")) {
    return strategy.Uses(plan::MeshDimension::kTensor);
  }
  if (key == "mesh.replicate") return strategy.Uses(plan::MeshDimension::kReplicate);
  if (key.starts_with("ddp.")) return !strategy.wraps && !strategy.shards_optimizer;
  if (key == "zero.reduce_bucket_size") return !strategy.wraps && strategy.shards_optimizer;
  if (key == "zero.overlap_comm") return !strategy.has_presets && strategy.shards_optimizer;
  if (key.starts_with("zero.")) return strategy.has_element_budgets;
  return true;
}

Status CheckKeysOfStrategies(const Config& config) {
  std::vector<const plan::Strategy*> chosen = {&GetStrategy(config)};
  std::vector<std::string> presets = {config.Get("preset")};
  for (const Change& change : config.changes()) {
    const auto strategy = change.set.find("strategy");
    if (strategy != change.set.end()) chosen.push_back(plan::FindStrategy(strategy->second));
    const auto preset = change.set.find("preset");
    if (preset != change.set.end()) presets.push_back(preset->second);
  }
  for (const KeyInfo& key : AllKeys()) {
    const bool is_of_strategies = key.name.starts_with("ddp.") || key.name.starts_with("zero.") ||
                                  key.name.starts_with("pipeline.") ||
                                  key.name.starts_with("tensor.") || IsOfAccumulation(key.name) ||
                                  DimensionOfLink(key.name);
    if (!is_of_strategies) continue;
    if (!MustHaveEffect(config, key.name)) continue;
    const auto applies = [&](const plan::Strategy& strategy) {
      return Applies(key.name, strategy);
    };
    const auto is_chosen = [&](const auto* one) { return one == nullptr || applies(*one); };
    if (std::ranges::none_of(chosen, is_chosen)) {
      const auto fitting = std::ranges::find_if(plan::Strategies(), applies);
      return Status::Error(fmt::format("{} has no effect with {}: leave it out, or set strategy={}",
                                       Shown(config, key.name), Shown(config, "strategy"),
                                       fitting->name));
    }
    const auto applies_with = [&](const std::string& preset) {
      return std::ranges::any_of(chosen, [&](const auto* one) {
        return one == nullptr || Applies(key.name, *one, preset);
      });
    };
    if (std::ranges::none_of(presets, applies_with)) {
      return Status::Error(
          fmt::format("{} has no effect with {}: leave it out, or set preset=fsdp2",
                      Shown(config, key.name), Shown(config, "preset")));
    }
  }
  return Status::Ok();
}

}  // namespace shardscope::config
