// Rules between keys, and changes while a run trains.
#include "engine/config/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/config/device.h"
#include "engine/config/faults.h"
#include "engine/config/parse.h"
#include "engine/plan/conflicts.h"
#include "trace/base/text.h"
#include "trace/base/trace_bytes.h"

namespace shardscope::config {
namespace {

Status CheckModel(const Config& config) {
  const int64_t dim = config.GetInt("model.dim");
  const int64_t heads = config.GetInt("model.heads");
  const int64_t kv_heads = GetKvHeads(config);
  if (config.Get("model.kind") == "gpt" && kv_heads != heads)
    return Status::Error(
        fmt::format("{} needs model.kind=llama: a gpt has as many heads of keys and values as of "
                    "queries",
                    Shown(config, "model.kv_heads")));
  if (heads % kv_heads != 0)
    return Status::Error(
        fmt::format("{} does not divide {}: each head of keys and values serves "
                    "equally many of queries",
                    Shown(config, "model.kv_heads"), Shown(config, "model.heads")));
  // A folder says how wide heads are.
  if (!config.Get("model.path").empty()) return Status::Ok();
  if (dim % heads != 0)
    return Status::Error(
        fmt::format("model.heads={} does not divide model.dim={}: make model.dim a "
                    "multiple of model.heads",
                    heads, dim));
  if (dim / heads % 2 != 0)
    return Status::Error(
        fmt::format("model.dim={} over model.heads={} gives {} channels a head, and rotary "
                    "positions need an even number",
                    dim, heads, dim / heads));
  return Status::Ok();
}

// Their names: "grad_op and no_shard".
std::string StrategiesThat(bool reshard_after_forward) {
  std::vector<std::string> names;
  for (const plan::Strategy& strategy : plan::Strategies()) {
    if (strategy.shards_parameters && strategy.reshards_after_forward == reshard_after_forward) {
      names.emplace_back(strategy.name);
    }
  }
  return Join(names, " and ");
}

Status CheckSharding(const Config& config) {
  const plan::Strategy& strategy = GetStrategy(config);
  if (config.GetBool("reshard_after_forward") == strategy.reshards_after_forward)
    return Status::Ok();
  return Status::Error(fmt::format(
      "{} contradicts {}: set one of them only ({} reshards after the forward, {} do not)",
      Shown(config, "reshard_after_forward"), Shown(config, "strategy"), StrategiesThat(true),
      StrategiesThat(false)));
}

Status CheckDoubleBuffer(const Config& config) {
  const plan::Strategy& strategy = GetStrategy(config);
  if (GetPreset(config) != plan::Preset::kDoubleBuffer || !strategy.has_presets)
    return Status::Ok();
  const auto refuse = [&](std::string_view key, std::string_view why, std::string_view remedy) {
    return Status::Error(fmt::format("{} does not go with {}, {}: set {}, or preset=fsdp2",
                                     Shown(config, "preset"), Shown(config, key), why, remedy));
  };
  const plan::Conflict conflict = plan::ConflictOfSlots(ToPolicy(config));
  if (conflict == plan::Conflict::kStrategy) {
    return refuse("strategy", "which does not free units after their forward", "strategy=full");
  }
  if (conflict == plan::Conflict::kStages) {
    return refuse("mesh.pipeline", "as stages have several micro-batches at once",
                  "mesh.pipeline=1");
  }
  if (config.GetBool("unit.root")) {
    return refuse("unit.root", "a unit that stays gathered", "unit.root=false");
  }
  const plan::UnitPolicy units = GetUnitPolicy(config);
  if (units.modules || units.least_elements > 0 || !units.names.empty()) {
    return refuse("unit.policy", "which leaves a root unit that stays gathered",
                  "unit.policy=block");
  }
  return Status::Ok();
}

Status CheckPrefetchLists(const Config& config) {
  for (const char* key : {"prefetch.forward_list", "prefetch.backward_list"}) {
    if (config.Get(key).empty() || GetPreset(config) == plan::Preset::kFsdp2) continue;
    return Status::Error(fmt::format("{} does not go with {}: set preset=fsdp2, or leave it out",
                                     Shown(config, key), Shown(config, "preset")));
  }
  return Status::Ok();
}

// The modules of unit.policy=list:... are there, each once.
Status CheckUnits(const Config& config) {
  std::vector<std::string> modules = {"embedding", "head"};
  for (int64_t block = 0; block < config.GetInt("model.layers"); ++block) {
    const std::string name = "block" + std::to_string(block);
    for (const char* part : {"", ".attention", ".mlp"}) modules.push_back(name + part);
  }
  const std::string shown =
      fmt::format("embedding, head, block0 to block{}, and of each block .attention and .mlp",
                  config.GetInt("model.layers") - 1);
  return CheckNames(config, "unit.policy", GetUnitPolicy(config).names,
                    {"module", "model.layers", std::move(modules), shown});
}

// The same ranks under a strategy that shards, over a group of one where nothing else is left.
std::string RemedyOfOffload(const Config& config) {
  const plan::Mesh mesh = ToPolicy(config).mesh;
  const int32_t stages = mesh.size(plan::MeshDimension::kPipeline);
  const int32_t tensor_ranks = mesh.size(plan::MeshDimension::kTensor);
  if (stages == 1 && tensor_ranks == 1) return "strategy=zero1 or strategy=full";
  std::string remedy = "strategy=full";
  if (stages > 1) remedy += fmt::format(" mesh.pipeline={}", stages);
  if (tensor_ranks > 1) remedy += fmt::format(" mesh.tensor={}", tensor_ranks);
  return remedy;
}

Status CheckOffload(const Config& config) {
  if (config.Get("offload") == "none") return Status::Ok();
  const auto refuse = [&](std::string_view key, std::string_view why, std::string_view remedy) {
    return Status::Error(fmt::format("{} does not go with {}, {}: set {}, or offload=none",
                                     Shown(config, "offload"), Shown(config, key), why, remedy));
  };
  switch (plan::ConflictOfOffload(ToPolicy(config))) {
    case plan::Conflict::kStrategy:
      return refuse("strategy", "which does not shard the optimizer's state",
                    RemedyOfOffload(config));
    case plan::Conflict::kWholeParameters:
      return refuse("strategy", "which has no parameter shards to bring from the host",
                    "offload=optimizer, strategy=full");
    case plan::Conflict::kPreset:
      return refuse("preset", "whose units stay where they are", "preset=fsdp2");
    case plan::Conflict::kNone:
    case plan::Conflict::kStages:
    case plan::Conflict::kRanks:
    case plan::Conflict::kOffload:
      break;
  }
  return Status::Ok();
}

Status CheckCheckpointing(const Config& config) {
  const std::vector<int32_t> blocks = GetCheckpointing(config).blocks;
  const int64_t layers = config.GetInt("model.layers");
  if (blocks.empty() || blocks.back() < layers) return Status::Ok();
  return Status::Error(fmt::format("{}: there is no block {} with {}; there are 0 to {}",
                                   Shown(config, "checkpointing"), blocks.back(),
                                   Shown(config, "model.layers"), layers - 1));
}

Status CheckPrecision(const Config& config) {
  if ((config.Get("precision.param") == "fp64") == (config.Get("precision.reduce") == "fp64"))
    return Status::Ok();
  return Status::Error(fmt::format("{} does not go with {}: fp64 is for both or for neither",
                                   Shown(config, "precision.reduce"),
                                   Shown(config, "precision.param")));
}

// What came with a checkpoint and does not apply changes nothing.
bool IsInForce(const Config& config, std::string_view key) {
  const plan::Strategy& strategy = GetStrategy(config);
  return config.IsGiven(key) || Applies(key, strategy, config.Get("preset"));
}

Status CheckAccumulation(const Config& config) {
  plan::Policy policy = ToPolicy(config);
  // One by one, to say which: what is given counts, whether the strategy of now has it or not.
  for (const std::string_view key : kAccumulationKeys) {
    if (!IsInForce(config, key)) continue;
    policy.accumulation = {};
    SetAccumulation(config, key, &policy.accumulation);
    if (plan::ConflictOfReduceScatterOnly(policy) != plan::Conflict::kNone) {
      return Status::Error(
          fmt::format("{} is about replicas, which {} does not have: set strategy=hybrid, or "
                      "accumulation=no_sync",
                      Shown(config, key), Shown(config, "strategy")));
    }
    if (plan::ConflictOfAccumulation(policy) == plan::Conflict::kNone) continue;
    return Status::Error(fmt::format(
        "{} has gradients on the host in the type of the weights, and does not go with {}: set "
        "{}={}, or offload=none",
        Shown(config, "offload"), Shown(config, key), key, FindKey(key)->default_value));
  }
  if (plan::ConflictOfScaler(policy) != plan::Conflict::kNone) {
    return Status::Error(fmt::format(
        "{} does not go with {}, where one rank sees the gradients: use precision.param=bf16 or "
        "another strategy",
        Shown(config, "scaler.enabled"), Shown(config, "strategy")));
  }
  return Status::Ok();
}

Status CheckOptimizer(const Config& config) {
  const bool falls = config.Get("train.schedule") != "constant";
  const double least = config.GetFloat("train.min_lr");
  if (!falls && least > 0) {
    return Status::Error(
        fmt::format("{} has no effect with {}: set train.schedule=linear or cosine",
                    Shown(config, "train.min_lr"), Shown(config, "train.schedule")));
  }
  if (falls && least > config.GetFloat("train.lr")) {
    return Status::Error(fmt::format("{} is above {}: set it lower", Shown(config, "train.min_lr"),
                                     Shown(config, "train.lr")));
  }
  const bool is_sgd = config.Get("optimizer.kind") == "sgd";
  for (const std::string_view key :
       {std::string_view("optimizer.beta1"), std::string_view("optimizer.beta2"),
        std::string_view("optimizer.eps"), std::string_view("optimizer.momentum")}) {
    if (!MustHaveEffect(config, key) || is_sgd == (key == "optimizer.momentum")) continue;
    return Status::Error(fmt::format("{} has no effect with {}: leave it out", Shown(config, key),
                                     Shown(config, "optimizer.kind")));
  }
  return Status::Ok();
}

// run.device=auto is settled by the trainer before it checks again.
Status CheckDevice(const Config& config) {
  const std::string& transport = config.Get("transport");
  const DeviceKind device = GetDevice(config);
  if (device == DeviceKind::kCpu && (transport == "nccl" || transport == "local"))
    return Status::Error(fmt::format(
        "{} moves the memory of GPUs and does not go with {}: set run.device=cuda, or use "
        "shared_memory, emulated or gloo",
        Shown(config, "transport"), Shown(config, "run.device")));
  if (device == DeviceKind::kCuda && config.Get("pipeline.schedule") == "interleaved")
    return Status::Error(
        "pipeline.schedule=interleaved has ranks that send to each other at once, which they can "
        "on "
        "the CPU only: set pipeline.schedule=1f1b, or run.device=cpu");
  for (const std::string_view key : {"link.host.bandwidth", "link.host.latency"}) {
    if (device != DeviceKind::kCuda || !MustHaveEffect(config, key)) continue;
    return Status::Error(
        fmt::format("{} emulates a link that a GPU has, and does not go with {}: leave it out",
                    Shown(config, key), Shown(config, "run.device")));
  }
  if (device == DeviceKind::kCuda && (transport == "shared_memory" || transport == "gloo"))
    return Status::Error(fmt::format(
        "{} moves the memory of the host and does not go with {}: use nccl, local or emulated",
        Shown(config, "transport"), Shown(config, "run.device")));
  return Status::Ok();
}

Status CheckProcesses(const Config& config) {
  const std::string& transport = config.Get("transport");
  const bool has_processes = transport == "gloo" || transport == "nccl";
  if (!GetStrategy(config).is_rooted || !has_processes) {
    return Status::Ok();
  }
  return Status::Error(
      fmt::format("{} is one process with all ranks, and {} has one for each: set transport={}, or "
                  "strategy=ddp",
                  Shown(config, "strategy"), Shown(config, "transport"),
                  GetDevice(config) == DeviceKind::kCuda ? "local" : "shared_memory"));
}

Status CheckFaults(const Config& config) {
  const auto check = [&](std::string_view key, int rank) {
    if (rank < config.GetInt("run.ranks")) return Status::Ok();
    return Status::Error(fmt::format("{}: there is no rank {} with {}", Shown(config, key), rank,
                                     Shown(config, "run.ranks")));
  };
  for (const Fault& fault : GetFaults(config)) {
    const std::string_view key = KeyOf(fault.kind);
    SHARDSCOPE_RETURN_IF_ERROR(check(key, fault.rank));
    // One that came with a checkpoint may lie behind what is trained of it now.
    const int64_t steps = config.GetInt("train.steps");
    if (fault.step < steps || !config.IsGiven(key)) continue;
    return Status::Error(fmt::format(
        "{}: there is no step {} with {}, whose last is {}: name one of 0 to {}, or raise "
        "train.steps",
        Shown(config, key), fault.step, Shown(config, "train.steps"), steps - 1, steps - 1));
  }
  SHARDSCOPE_RETURN_IF_ERROR(check("fault.init", static_cast<int>(config.GetInt("fault.init"))));
  const std::optional<Delay> delay = GetLateness(config).delay;
  return delay ? check("fault.delay", delay->rank) : Status::Ok();
}

Status CheckEvaluation(const Config& config) {
  const bool evaluates = config.GetInt("eval.every") > 0;
  const bool has_data = !config.Get("eval.path").empty();
  if (evaluates == has_data) return Status::Ok();
  if (has_data && config.IsExplicit("eval.every")) return Status::Ok();  // turned off on purpose
  if (has_data) {
    return Status::Error(
        fmt::format("{} has no effect with {}: set eval.every=100, or leave it out (eval.path=)",
                    Shown(config, "eval.path"), Shown(config, "eval.every")));
  }
  return Status::Error(fmt::format("{} needs held-out data: name a file or folder with eval.path",
                                   Shown(config, "eval.every")));
}

Status CheckLogitsBlock(const Config& config) {
  constexpr int64_t kLeast = 16;
  const int64_t columns = config.GetInt("train.logits_block");
  if (columns == 0 || columns >= kLeast) return Status::Ok();
  return Status::Error(
      fmt::format("{} is too small a block of logits: give 0 (all at once) or {} and more",
                  Shown(config, "train.logits_block"), kLeast));
}

Status CheckRecord(const Config& config) {
  const int64_t bytes = config.GetInt("record.max_bytes");
  if (bytes == 0 || bytes >= kLeastTraceBytes) return Status::Ok();
  return Status::Error(
      fmt::format("{} is too small to record a step: give 0 (no limit) or at least {}",
                  Shown(config, "record.max_bytes"), SizeText(kLeastTraceBytes)));
}

Status CheckChanges(const Config& config) {
  Config at_step = config;
  at_step.ClearChanges();
  for (const Change& change : config.changes()) {
    const Status status = ApplyLive(change.set, &at_step);
    if (!status.ok())
      return Status::Error(fmt::format("change at step {}: {}", change.step, status.message()));
  }
  return Status::Ok();
}

}  // namespace

std::string Shown(const Config& config, std::string_view key) {
  return fmt::format("{}={}", key, config.Get(key));
}

Status CheckNames(const Config& config, std::string_view key,
                  const std::vector<std::string>& listed, const KnownNames& known) {
  for (const std::string& name : listed) {
    if (std::ranges::count(listed, name) > 1) {
      return Status::Error(fmt::format("{} names {} twice", Shown(config, key), name));
    }
    if (std::ranges::find(known.names, name) != known.names.end()) continue;
    return Status::Error(fmt::format("{}: there is no {} {} with {}; there are {}",
                                     Shown(config, key), known.noun, name, Shown(config, known.key),
                                     known.shown));
  }
  return Status::Ok();
}

Status Config::Check() const {
  SHARDSCOPE_RETURN_IF_ERROR(CheckModel(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckRecord(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckEvaluation(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckLogitsBlock(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckSharding(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckUnits(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckMesh(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckReshardRanks(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckPrefetchLists(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckDoubleBuffer(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckCheckpointing(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckOffload(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckPrecision(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckAccumulation(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckOptimizer(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckFineTuning(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckDevice(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckProcesses(*this));
  SHARDSCOPE_RETURN_IF_ERROR(CheckFaults(*this));
  return CheckChanges(*this);
}

Status ApplySetting(std::string_view setting, Config* config) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos || Trim(setting.substr(0, equals)).empty())
    return Status::Error(fmt::format("--set {}: expected key=value", setting));
  return config->Set(Trim(setting.substr(0, equals)), setting.substr(equals + 1));
}

Status ApplyLive(const std::map<std::string, std::string>& values, Config* config) {
  Config candidate = *config;
  candidate.ClearChanges();  // those of the run were checked when it started
  SHARDSCOPE_RETURN_IF_ERROR(candidate.SetAll(values));
  for (const auto& [key, value] : values) {
    if (!FindKey(key)->live)
      return Status::Error(
          fmt::format("{} cannot change while the run trains; start a new run with it", key));
    const bool is_link = key.starts_with("link.") && !IsHostLink(key);
    if (is_link && config->Get("transport") != "emulated")
      return Status::Error(
          fmt::format("{}={} has no effect with {}; start a new run with transport=emulated", key,
                      value, Shown(*config, "transport")));
  }
  SHARDSCOPE_RETURN_IF_ERROR(candidate.Check());
  for (const Change& change : config->changes()) candidate.AddChange(change);
  *config = std::move(candidate);
  return Status::Ok();
}

}  // namespace shardscope::config
