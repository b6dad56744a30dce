#include "engine/footprint/memory_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "engine/config/mesh_keys.h"
#include "engine/footprint/device_limits.h"
#include "engine/footprint/footprint.h"
#include "engine/plan/strategy.h"
#include "trace/base/text.h"

namespace shardscope::footprint {
namespace {

using config::Config;

// Whether the key does anything in `config`.
bool Counts(const Config& config, std::string_view key) {
  return config::Applies(key, config::GetStrategy(config), config.Get("preset"));
}

Settings One(std::string_view key, std::string value) {
  return {{std::string(key), std::move(value)}};
}

// The values that are not the present one, where the key counts.
std::vector<Settings> Others(const Config& config, std::string_view key,
                             std::initializer_list<std::string_view> values) {
  std::vector<Settings> settings;
  if (!Counts(config, key)) return settings;
  for (const std::string_view value : values) {
    if (config.Get(key) != value) settings.push_back(One(key, std::string(value)));
  }
  return settings;
}

// Half the present number, half of that, and so on to `least`, where the key counts.
std::vector<Settings> Halves(const Config& config, std::string_view key, int64_t least,
                             std::string_view unit = "") {
  std::vector<Settings> settings;
  if (!Counts(config, key)) return settings;
  for (int64_t value = config.GetInt(key); value > least;) {
    value = std::max(least, value / 2);
    settings.push_back(One(key, std::to_string(value) + std::string(unit)));
  }
  return settings;
}

std::vector<Settings> LessBackwardPrefetch(const Config& config) {
  std::vector<Settings> settings = Halves(config, "prefetch.backward_depth", 1);
  const std::string& now = config.Get("prefetch.backward");
  if (now == "none" || !Counts(config, "prefetch.backward")) return settings;
  if (now == "pre") settings.push_back(One("prefetch.backward", "post"));
  settings.push_back(One("prefetch.backward", "none"));
  return settings;
}

std::vector<Settings> LessForwardPrefetch(const Config& config) {
  return Halves(config, "prefetch.forward", 0);
}

std::vector<Settings> FewerUnitsInFlight(const Config& config) {
  const int64_t now = config.GetInt("prefetch.limit");
  std::vector<Settings> settings;
  if (!Counts(config, "prefetch.limit")) return settings;
  for (const int64_t limit : {2, 1}) {
    if (now == 0 || now > limit) settings.push_back(One("prefetch.limit", std::to_string(limit)));
  }
  return settings;
}

std::vector<Settings> ShorterRunAhead(const Config& config) {
  const int64_t now = config.GetInt("host.run_ahead");
  std::vector<Settings> settings;
  for (const int64_t ops : {4, 1, 0}) {
    if (now < 0 || now > ops) settings.push_back(One("host.run_ahead", std::to_string(ops)));
  }
  return settings;
}

std::vector<Settings> ReshardAfterForward(const Config& config) {
  const plan::Strategy& now = config::GetStrategy(config);
  const plan::Strategy& variant = plan::VariantThat(true, now);
  if (!now.reshards_after_forward && &variant != &now) return {ToStrategy(config, variant)};
  // Among fewer ranks each keeps more.
  if (config::GetReshardRanks(config)) return {One("reshard_after_forward", "true")};
  return {};
}

std::vector<Settings> NoRootUnit(const Config& config) {
  return Others(config, "unit.root", {"false"});
}

// Without the copies of fsdp2.
std::vector<Settings> OtherPreset(const Config& config) {
  return Others(config, "preset", {"fsdp1", "fsdp2"});
}

std::vector<Settings> ComputeThatWaits(const Config& config) {
  return Others(config, "zero.overlap_comm", {"false"});
}

// Either alone may leave the other to gather as much.
std::vector<Settings> SmallerBudgets(const Config& config) {
  std::vector<Settings> settings;
  Settings all;
  for (const char* key : {"zero.prefetch_bucket_size", "zero.max_reuse_distance"}) {
    const std::vector<Settings> none = Others(config, key, {"0"});
    if (none.empty()) continue;
    settings.push_back(none.front());
    all.insert(none.front().begin(), none.front().end());
  }
  if (settings.size() > 1) settings.push_back(std::move(all));
  return settings;
}

std::vector<Settings> FewerStagesAtOnce(const Config& config) {
  return Others(config, "pipeline.schedule", {"1f1b"});
}

std::vector<Settings> Recompute(const Config& config) {
  if (config.Get("checkpointing") == "full") return {};
  return Others(config, "checkpointing", {"selective", "every:2", "full"});
}

// Of the logits a quarter, then a sixteenth of what is there now.
std::vector<Settings> LogitsInBlocks(const Config& config) {
  const auto model = ModelConfigOf(config);
  std::vector<Settings> settings;
  if (!model.ok()) return settings;
  for (const int64_t share : {4, 16}) {
    model::ModelConfig fewer = *model;
    fewer.logits_block = std::max<int64_t>(model->logits_columns() / share, 1);
    const int64_t block = fewer.logits_columns();  // no less than there can be
    const Settings setting = One("train.logits_block", std::to_string(block));
    const bool is_new = settings.empty() || settings.back() != setting;
    if (block < model->logits_columns() && is_new) settings.push_back(setting);
  }
  return settings;
}

std::vector<Settings> Offload(const Config& config) {
  return Others(config, "offload", {"optimizer", "all"});
}

// Without the copy from which they are written; the control socket's are still to be had.
std::vector<Settings> NoCheckpoints(const Config& config) {
  return config.GetInt("checkpoint.every") > 0 ? std::vector{One("checkpoint.every", "0")}
                                               : std::vector<Settings>();
}

std::vector<Settings> SmallerUnits(const Config& config) {
  return Others(config, "unit.policy", {"block", "module"});
}

std::vector<Settings> SmallerBuckets(const Config& config) {
  constexpr int64_t kLeastBytes = 1 << 20;
  constexpr int64_t kLeastElements = 1 << 16;
  std::vector<Settings> settings = Halves(config, "ddp.bucket_cap", kLeastBytes, "B");
  std::ranges::move(Halves(config, "zero.reduce_bucket_size", kLeastElements),
                    std::back_inserter(settings));
  return settings;
}

std::vector<Settings> SplitSequence(const Config& config) {
  return Others(config, "tensor.sequence_parallel", {"true"});
}

// Each rank has the samples as before, fewer at a time.
std::vector<Settings> SmallerBatches(const Config& config) {
  std::vector<Settings> settings;
  int64_t batch = config.GetInt("train.batch");
  int64_t micro_batches = config.GetInt("train.micro_batches");
  while (batch % 2 == 0) {
    batch /= 2;
    micro_batches *= 2;
    settings.push_back({{"train.batch", std::to_string(batch)},
                        {"train.micro_batches", std::to_string(micro_batches)}});
  }
  return settings;
}

// Those that keep less between steps.
std::vector<Settings> ShardMore(const Config& config) {
  std::vector<Settings> settings;
  const plan::Strategy& now = config::GetStrategy(config);
  // What ranks share already needs more than a key to share otherwise.
  if (now.Uses(plan::MeshDimension::kPipeline) && !now.Uses(plan::MeshDimension::kShard) &&
      !now.Uses(plan::MeshDimension::kReplicate)) {
    return settings;
  }
  std::vector<const plan::Strategy*> others;
  for (const plan::Strategy& other : plan::Strategies()) {
    if (other.advice_order > 0 && &other != &now) others.push_back(&other);
  }
  std::ranges::stable_sort(others, {}, &plan::Strategy::advice_order);
  for (const plan::Strategy* other : others) settings.push_back(ToStrategy(config, *other));
  return settings;
}

// Of replicas that hold the same shards.
std::vector<Settings> FewerReplicas(const Config& config) {
  std::vector<Settings> settings;
  if (!config::GetStrategy(config).replicates_shards()) return settings;
  const plan::Mesh mesh = config::ToPolicy(config).mesh;
  for (int32_t replicas = mesh.size(plan::MeshDimension::kReplicate); replicas % 2 == 0;) {
    replicas /= 2;
    if (replicas < 2) break;  // that is full
    settings.push_back(One("mesh.replicate", std::to_string(replicas)));
  }
  return settings;
}

std::vector<Settings> NarrowReduction(const Config& config) {
  if (config.Get("precision.param") == "fp64") return {};
  return Others(config, "precision.reduce", {"bf16"});
}

std::vector<Settings> NarrowCompute(const Config& config) {
  if (config.Get("precision.param") == "fp64") return {};
  return Others(config, "precision.param", {"bf16"});
}

std::vector<Settings> NarrowState(const Config& config) {
  return Others(config, "optimizer.state", {"8bit"});
}

std::vector<Settings> FewerSamples(const Config& config) {
  return Halves(config, "train.batch", 1);
}

std::vector<Settings> ShorterSamples(const Config& config) {
  constexpr int64_t kLeast = 8;
  return Halves(config, "model.seq", kLeast);
}

constexpr std::array kOptions = {
    MemoryOption{Effect::kNone, LessForwardPrefetch},
    MemoryOption{Effect::kNone, LessBackwardPrefetch},
    MemoryOption{Effect::kNone, FewerUnitsInFlight},
    MemoryOption{Effect::kNone, ReshardAfterForward},
    MemoryOption{Effect::kNone, NoRootUnit},
    MemoryOption{Effect::kNone, SmallerBudgets},
    MemoryOption{Effect::kNone, ComputeThatWaits},
    MemoryOption{Effect::kNone, FewerStagesAtOnce},
    MemoryOption{Effect::kNone, OtherPreset},
    MemoryOption{Effect::kNone, ShorterRunAhead},
    MemoryOption{Effect::kNone, Recompute},
    MemoryOption{Effect::kNone, Offload},
    MemoryOption{Effect::kNone, NoCheckpoints},
    MemoryOption{Effect::kRounding, SmallerUnits},
    MemoryOption{Effect::kRounding, SmallerBuckets},
    MemoryOption{Effect::kRounding, LogitsInBlocks},
    MemoryOption{Effect::kRounding, SplitSequence},
    MemoryOption{Effect::kRounding, FewerReplicas},
    MemoryOption{Effect::kRounding, ShardMore},
    MemoryOption{Effect::kRounding, SmallerBatches},
    MemoryOption{Effect::kPrecision, NarrowReduction},
    MemoryOption{Effect::kPrecision, NarrowCompute},
    MemoryOption{Effect::kPrecision, NarrowState},
    MemoryOption{Effect::kTraining, FewerSamples},
    MemoryOption{Effect::kTraining, ShorterSamples},
};
static_assert(std::ranges::is_sorted(kOptions, {}, &MemoryOption::effect));

}  // namespace

std::string_view TextOf(Effect effect) {
  switch (effect) {
    case Effect::kNone:
      return "same results";
    case Effect::kRounding:
      return "same up to rounding";
    case Effect::kPrecision:
      return "less precise";
    case Effect::kTraining:
      return "another training";
  }
  return "";
}

std::string TextOf(const Settings& settings) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : settings) parts.push_back(key + "=" + value);
  return Join(parts, " ");
}

std::span<const MemoryOption> AllMemoryOptions() { return kOptions; }

std::vector<Settings> SettingsOf(const MemoryOption& option, const Config& config) {
  std::vector<Settings> all = option.settings(config);
  if (config.Get("schedule.file").empty()) return all;
  for (Settings& settings : all) {
    const Result<Config> changed = With(config, settings);
    if (changed.ok() && config::ToPolicy(*changed) == config::ToPolicy(config)) continue;
    settings["schedule.file"] = "";
  }
  return all;
}

Result<Config> With(const Config& config, const Settings& settings, bool only_live) {
  Config changed = config;
  if (only_live) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplyLive(settings, &changed));
  } else {
    SHARDSCOPE_RETURN_IF_ERROR(changed.SetAll(settings));
    config::SettleInherited(&changed);
    SHARDSCOPE_RETURN_IF_ERROR(changed.Check());
    SHARDSCOPE_RETURN_IF_ERROR(config::CheckKeysOfStrategies(changed));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CheckDeviceLimits(changed));
  return changed;
}

Settings ToStrategy(const Config& config, const plan::Strategy& strategy) {
  Settings settings = One("strategy", std::string(strategy.name));
  if (config.IsExplicit("reshard_after_forward") &&
      config.GetBool("reshard_after_forward") != strategy.reshards_after_forward) {
    settings["reshard_after_forward"] = strategy.reshards_after_forward ? "true" : "false";
  }
  for (const auto& [dimension, key] : config::kMeshKeys) {
    if (!config.IsExplicit(key)) continue;
    if (!strategy.Uses(dimension)) {
      settings[std::string(key)] = "1";
    } else if (strategy.MeshOf(2).size(dimension) == 2) {
      settings[std::string(key)] = "auto";
    }
  }
  return settings;
}

}  // namespace shardscope::footprint
