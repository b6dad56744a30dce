// What of a model is trained: train.frozen, and the adapters of LoRA.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/rules.h"
#include "trace/base/text.h"

namespace shardscope::config {
namespace {

// As users name them, and as parameters are named: a llama's as transformers and peft have them, a
// gpt's as they are.
using TargetNames = std::vector<std::pair<std::string, std::string>>;

const TargetNames& TargetsOf(const Config& config) {
  static const TargetNames kLlama = {{"q_proj", "q"},      {"k_proj", "k"},       {"v_proj", "v"},
                                     {"o_proj", "o"},      {"gate_proj", "gate"}, {"up_proj", "up"},
                                     {"down_proj", "down"}};
  static const TargetNames kGpt = {
      {"qkv", "qkv"}, {"projection", "projection"}, {"up", "up"}, {"down", "down"}};
  const bool is_llama = config.Get("model.kind") == "llama" || !config.Get("model.path").empty();
  return is_llama ? kLlama : kGpt;
}

std::vector<std::string> ListOf(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string_view name : Split(text, ',')) {
    if (!Trim(name).empty()) names.emplace_back(Trim(name));
  }
  return names;
}

Status CheckTargets(const Config& config) {
  const std::vector<std::string> chosen = ListOf(config.Get("lora.targets"));
  if (chosen == std::vector<std::string>{"all"}) return Status::Ok();
  const TargetNames& known = TargetsOf(config);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : known) names.push_back(name);
  SHARDSCOPE_RETURN_IF_ERROR(
      CheckNames(config, "lora.targets", chosen,
                 {"layer", "model.kind", names, fmt::format("{}, or all", Join(names, ", "))}));
  if (!chosen.empty()) return Status::Ok();
  return Status::Error(fmt::format(
      "lora.targets is empty, so that nothing would be trained: name some of {}, or all",
      Join(names, ", ")));
}

Status CheckFrozen(const Config& config) {
  const std::vector<std::string> frozen = GetFineTuning(config).frozen;
  const int64_t layers = config.GetInt("model.layers");
  // By module, whether it is trained: embedding, attention and MLP of each block, head.
  std::vector<std::pair<std::string, bool>> modules = {{"embedding.", true}, {"head.", true}};
  for (int64_t block = 0; block < layers; ++block) {
    modules.emplace_back(fmt::format("block{}.attention.", block), true);
    modules.emplace_back(fmt::format("block{}.mlp.", block), true);
  }
  for (const std::string& name : frozen) {
    const std::string start = name == "blocks" ? "block" : name + ".";
    bool is_there = false;
    for (auto& [module, is_trained] : modules) {
      if (!module.starts_with(start)) continue;
      is_there = true;
      is_trained = false;
    }
    if (is_there) continue;
    return Status::Error(fmt::format(
        "{}: there is no module {} with {}; there are embedding, head, blocks, block0 to block{}, "
        "and of each block .attention and .mlp",
        Shown(config, "train.frozen"), name, Shown(config, "model.layers"), layers - 1));
  }
  const bool trains =
      std::ranges::any_of(modules, [](const auto& module) { return module.second; });
  if (trains) return Status::Ok();
  return Status::Error(fmt::format("{} leaves nothing to train: leave some modules out of it",
                                   Shown(config, "train.frozen")));
}

}  // namespace

FineTuning GetFineTuning(const Config& config) {
  FineTuning tuning;
  tuning.frozen = ListOf(config.Get("train.frozen"));
  tuning.rank = config.GetInt("lora.rank");
  if (tuning.rank == 0) return tuning;
  tuning.alpha = config.GetFloat("lora.alpha");
  const std::vector<std::string> chosen = ListOf(config.Get("lora.targets"));
  const bool is_all = chosen == std::vector<std::string>{"all"};
  for (const auto& [name, parameter] : TargetsOf(config)) {
    const bool is_chosen = is_all || std::ranges::find(chosen, name) != chosen.end();
    if (is_chosen) tuning.targets.push_back(parameter);
  }
  return tuning;
}

Status CheckFineTuning(const Config& config) {
  const bool adapts = config.GetInt("lora.rank") > 0;
  const bool freezes = !config.Get("train.frozen").empty();
  for (const std::string_view key : {"lora.alpha", "lora.targets"}) {
    if (adapts || !MustHaveEffect(config, key)) continue;
    return Status::Error(fmt::format("{} has no effect with {}: set lora.rank=8, or leave it out",
                                     Shown(config, key), Shown(config, "lora.rank")));
  }
  if (adapts && freezes) {
    return Status::Error(
        fmt::format("{} has no effect with {}, which freezes all but the adapters: leave it out",
                    Shown(config, "train.frozen"), Shown(config, "lora.rank")));
  }
  if (!adapts && !freezes) return Status::Ok();
  SHARDSCOPE_RETURN_IF_ERROR(adapts ? CheckTargets(config) : CheckFrozen(config));
  const std::string_view key = adapts ? "lora.rank" : "train.frozen";
  const auto refuse = [&](std::string_view other, std::string_view why, std::string_view remedy) {
    return Status::Error(fmt::format("{} does not go with {}, {}: set {}, or leave {} out",
                                     Shown(config, key), Shown(config, other), why, remedy, key));
  };
  const bool shares_layers = Applies("mesh.tensor", GetStrategy(config));
  if (shares_layers && config.GetBool("tensor.async")) {
    return refuse("tensor.async", "which makes gradients of whole layers under a collective",
                  "tensor.async=false");
  }
  return Status::Ok();
}

}  // namespace shardscope::config
