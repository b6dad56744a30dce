// Rules between keys, changes while a run trains, and the Policy that the keys give.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "engine/config/config.h"
#include "engine/config/faults.h"
#include "trace/base/check.h"
#include "trace/base/text.h"

namespace shardscope::config {
namespace {

std::string Shown(const Config& config, std::string_view key) {
  return fmt::format("{}={}", key, config.Get(key));
}

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
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  if (config.GetBool("reshard_after_forward") == strategy.reshards_after_forward)
    return Status::Ok();
  return Status::Error(fmt::format(
      "{} contradicts {}: set one of them only ({} reshards after the forward, {} do not)",
      Shown(config, "reshard_after_forward"), Shown(config, "strategy"), StrategiesThat(true),
      StrategiesThat(false)));
}

// The keys that exist, in the order of plan::Mesh::sizes.
constexpr std::pair<plan::MeshDimension, std::string_view> kMeshKeys[] = {
    {plan::MeshDimension::kReplicate, "mesh.replicate"},
    {plan::MeshDimension::kShard, "mesh.shard"},
    {plan::MeshDimension::kPipeline, "mesh.pipeline"},
    {plan::MeshDimension::kTensor, "mesh.tensor"},
};

// auto: what the others leave of run.ranks. A mesh that does not multiply to them is an error.
Result<plan::Mesh> MeshOf(const Config& config) {
  plan::Mesh mesh;
  int64_t stated = 1;
  std::optional<plan::MeshDimension> rest;
  std::vector<std::string> shown;
  for (const auto& [dimension, key] : kMeshKeys) {
    shown.push_back(Shown(config, key));
    if (const std::optional<int64_t> size = GetMeshSize(config, key)) {
      mesh.sizes[static_cast<size_t>(dimension)] = static_cast<int32_t>(*size);
      stated *= *size;
    } else if (rest) {
      return Status::Error(fmt::format("{}: only one of them can be auto", Join(shown, ", ")));
    } else {
      rest = dimension;
    }
  }
  const int64_t ranks = config.GetInt("run.ranks");
  if (rest && ranks % stated == 0) {
    mesh.sizes[static_cast<size_t>(*rest)] = static_cast<int32_t>(ranks / stated);
  } else if (rest || ranks != stated) {
    const std::string shown_ranks = Shown(config, "run.ranks");
    return Status::Error(
        fmt::format("{} multiply to {}, {}: set {}run.ranks={}", Join(shown, " and "), stated,
                    rest ? "which " + shown_ranks + " is no multiple of" : "not to " + shown_ranks,
                    rest ? "" : "one of them to auto, or ", stated));
  }
  return mesh;
}

// `ranks`: along mesh.pipeline.
Status CheckStages(const Config& config, int32_t ranks) {
  const int64_t chunks = config.GetInt("pipeline.chunks");
  const bool interleaves = config.Get("pipeline.schedule") == "interleaved";
  if (interleaves != (chunks > 1)) {
    return Status::Error(
        fmt::format("{} does not go with {}: set {}", Shown(config, "pipeline.chunks"),
                    Shown(config, "pipeline.schedule"),
                    interleaves ? "pipeline.chunks=2 or more, or pipeline.schedule=1f1b"
                                : "pipeline.schedule=interleaved, or pipeline.chunks=1"));
  }
  const int64_t layers = config.GetInt("model.layers");
  if (ranks * chunks > layers) {
    return Status::Error(
        fmt::format("{} ranks with {} are {} stages, but {}: set model.layers={}, or fewer stages",
                    ranks, Shown(config, "pipeline.chunks"), ranks * chunks,
                    Shown(config, "model.layers"), ranks * chunks));
  }
  if (config.GetBool("unit.root")) {
    return Status::Error(
        "unit.root=true puts embedding and head into one unit, but a pipeline has them on two "
        "ranks: set unit.root=false");
  }
  const int64_t micro_batches = config.GetInt("train.micro_batches");
  const int64_t rounds = std::max<int64_t>(1, micro_batches / ranks);
  if (interleaves && micro_batches % rounds != 0) {
    return Status::Error(fmt::format(
        "{} with pipeline.schedule=interleaved and {} stages in a row: set it to a multiple of {}",
        Shown(config, "train.micro_batches"), ranks, ranks));
  }
  return Status::Ok();
}

// `ranks`: along mesh.tensor.
Status CheckTensor(const Config& config, const plan::Strategy& strategy, int32_t ranks) {
  constexpr std::string_view kKey = "tensor.sequence_parallel";
  for (const std::string_view key : {kKey, std::string_view("tensor.async")}) {
    if (ranks > 1 || !config.GetBool(key) || !Applies(key, strategy)) continue;
    return Status::Error(fmt::format(
        "{} needs ranks that share layers, and {} has none: set mesh.tensor=2 and an even "
        "run.ranks, or {}=false",
        Shown(config, key), Shown(config, "mesh.tensor"), key));
  }
  const int64_t seq = config.GetInt("model.seq");
  if (ranks == 1 || !config.GetBool(kKey) || seq % ranks == 0) return Status::Ok();
  return Status::Error(
      fmt::format("{} cannot be split among {} ranks along mesh.tensor, as {} asks for: set "
                  "model.seq={}, or {}=false",
                  Shown(config, "model.seq"), ranks, Shown(config, kKey),
                  (seq + ranks - 1) / ranks * ranks, kKey));
}

// What of a layer is split among the ranks along mesh.tensor.
Status CheckSplits(const Config& config, const plan::Strategy& strategy, const plan::Mesh& mesh) {
  const int64_t ranks = mesh.size(plan::MeshDimension::kTensor);
  const std::pair<std::string_view, int64_t> sizes[] = {
      {"model.heads", config.GetInt("model.heads")},
      {"model.kv_heads", GetKvHeads(config)},
      {"model.ffn", GetFfn(config)}};
  int64_t fits = ranks;
  for (const auto& [key, size] : sizes) fits = std::gcd(fits, size);
  if (fits == ranks) return Status::Ok();
  const auto& [key, size] =
      *std::ranges::find_if(sizes, [&](const auto& one) { return one.second % ranks != 0; });
  std::vector<std::string> remedies;
  if (config.Get("model.path").empty()) {  // a folder says how large they are
    remedies.push_back(fmt::format("{} to a multiple of {}", key, ranks));
  }
  // Where nothing else takes the other ranks, there are fewer.
  const bool others_take = std::ranges::any_of(kMeshKeys, [&](const auto& one) {
    return one.first != plan::MeshDimension::kTensor && strategy.Uses(one.first) &&
           !GetMeshSize(config, one.second);
  });
  const int64_t fewer = config.GetInt("run.ranks") / ranks * fits;
  remedies.push_back(fmt::format(
      "{}mesh.tensor={}", others_take ? "" : fmt::format("run.ranks={} with ", fewer), fits));
  return Status::Error(fmt::format("{}={} cannot be split among {} ranks along mesh.tensor: set {}",
                                   key, size, ranks, Join(remedies, ", or ")));
}

Status CheckMesh(const Config& config) {
  if (plan::FindStrategy(config.Get("strategy"))->dimensions == 0 &&
      config.GetInt("run.ranks") > 1) {
    return Status::Error(fmt::format("{} is one rank, not {}: set run.ranks=1, or strategy=ddp",
                                     Shown(config, "strategy"), Shown(config, "run.ranks")));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::Mesh mesh, MeshOf(config));
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  const int32_t replicas = mesh.size(plan::MeshDimension::kReplicate);
  const int32_t shards = mesh.size(plan::MeshDimension::kShard);
  if (strategy.replicates_shards() && replicas == 1) {
    return Status::Error(fmt::format(
        "{} needs replicas, and {} with {} leaves one: set mesh.replicate=2 and an even run.ranks, "
        "or strategy=full",
        Shown(config, "strategy"), Shown(config, "mesh.replicate"), Shown(config, "run.ranks")));
  }
  if (!strategy.Uses(plan::MeshDimension::kReplicate) && replicas > 1) {
    return Status::Error(fmt::format(
        "{} means replicas, which {} does not have: set strategy=hybrid, or mesh.replicate=1",
        Shown(config, "mesh.replicate"), Shown(config, "strategy")));
  }
  if (!strategy.Uses(plan::MeshDimension::kShard) && shards > 1) {
    return Status::Error(
        fmt::format("{} means shards, which {} does not have: set strategy=hybrid, or mesh.shard=1",
                    Shown(config, "mesh.shard"), Shown(config, "strategy")));
  }
  const int32_t stages = mesh.size(plan::MeshDimension::kPipeline);
  if (!strategy.Uses(plan::MeshDimension::kPipeline) && stages > 1) {
    return Status::Error(fmt::format(
        "{} means stages, which {} does not have: set strategy=pipeline, or mesh.pipeline=1",
        Shown(config, "mesh.pipeline"), Shown(config, "strategy")));
  }
  if (stages > 1) SHARDSCOPE_RETURN_IF_ERROR(CheckStages(config, stages));
  const int32_t tensor_ranks = mesh.size(plan::MeshDimension::kTensor);
  if (!strategy.Uses(plan::MeshDimension::kTensor) && tensor_ranks > 1) {
    return Status::Error(
        fmt::format("{} splits layers, which {} does not: set strategy=tensor, or mesh.tensor=1",
                    Shown(config, "mesh.tensor"), Shown(config, "strategy")));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CheckTensor(config, strategy, tensor_ranks));
  return CheckSplits(config, strategy, mesh);
}

// reshard_after_forward=k.
Status CheckReshardRanks(const Config& config) {
  const std::optional<int64_t> ranks = GetReshardRanks(config);
  if (!ranks) return Status::Ok();
  const std::string shown = Shown(config, "reshard_after_forward");
  if (config.Get("preset") != "fsdp2") {
    return Status::Error(
        fmt::format("{} does not go with {}, which reshards among all ranks: set preset=fsdp2, or "
                    "reshard_after_forward=true",
                    shown, Shown(config, "preset")));
  }
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  if (!strategy.has_presets) {
    return Status::Error(
        fmt::format("{} does not go with {}: set reshard_after_forward=true, or "
                    "strategy=full",
                    shown, Shown(config, "strategy")));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::Mesh mesh, MeshOf(config));
  if (mesh.size(plan::MeshDimension::kPipeline) > 1) {
    return Status::Error(fmt::format(
        "{} does not go with stages ({}): set reshard_after_forward=true, or mesh.pipeline=1",
        shown, Shown(config, "mesh.pipeline")));
  }
  const int64_t shards = mesh.size(plan::MeshDimension::kShard);
  if (shards % *ranks == 0) return Status::Ok();
  return Status::Error(
      fmt::format("{} ranks are no part of the {} ranks that share a unit (mesh.shard): set "
                  "reshard_after_forward to a number that divides them, or to true",
                  shown, shards));
}

Status CheckDoubleBuffer(const Config& config) {
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  if (config.Get("preset") != "double_buffer" || !strategy.has_presets) return Status::Ok();
  const auto refuse = [&](std::string_view key, std::string_view why, std::string_view remedy) {
    return Status::Error(fmt::format("{} does not go with {}, {}: set {}, or preset=fsdp2",
                                     Shown(config, "preset"), Shown(config, key), why, remedy));
  };
  if (!strategy.reshards_after_forward) {
    return refuse("strategy", "which does not free units after their forward", "strategy=full");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::Mesh mesh, MeshOf(config));
  if (mesh.size(plan::MeshDimension::kPipeline) > 1) {
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
    if (config.Get(key).empty() || config.Get("preset") == "fsdp2") continue;
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
  const std::vector<std::string> names = GetUnitPolicy(config).names;
  for (const std::string& name : names) {
    if (std::ranges::count(names, name) > 1) {
      return Status::Error(fmt::format("{} names {} twice", Shown(config, "unit.policy"), name));
    }
    if (std::ranges::find(modules, name) != modules.end()) continue;
    return Status::Error(fmt::format(
        "{}: there is no module {} with {}; there are embedding, head, block0 to block{}, and of "
        "each block .attention and .mlp",
        Shown(config, "unit.policy"), name, Shown(config, "model.layers"),
        config.GetInt("model.layers") - 1));
  }
  return Status::Ok();
}

plan::Offload OffloadOf(const Config& config) {
  const std::string& value = config.Get("offload");
  if (value == "all") return plan::Offload::kAll;
  return value == "optimizer" ? plan::Offload::kOptimizer : plan::Offload::kNone;
}

Status CheckOffload(const Config& config) {
  const std::string shown = Shown(config, "offload");
  if (config.Get("offload") == "none") return Status::Ok();
  const auto refuse = [&](std::string_view key, std::string_view why, std::string_view remedy) {
    return Status::Error(fmt::format("{} does not go with {}, {}: set {}, or offload=none", shown,
                                     Shown(config, key), why, remedy));
  };
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  if (!strategy.shards_optimizer) {
    return refuse("strategy", "whose ranks all keep all of the optimizer's state",
                  "strategy=zero1 or strategy=full");
  }
  if (config.Get("offload") == "all" && !strategy.shards_parameters) {
    return refuse("strategy", "which has no parameter shards to bring from the host",
                  "offload=optimizer, strategy=full");
  }
  if (strategy.has_presets && config.Get("preset") == "double_buffer") {
    return refuse("preset", "whose units stay where they are", "preset=fsdp2");
  }
  if (config.GetBool("tensor.sequence_parallel")) {
    return refuse("tensor.sequence_parallel", "whose ranks add up gradients once more",
                  "tensor.sequence_parallel=false");
  }
  if (config.Get("run.device") != "cpu") {
    return refuse("run.device", "on which it is not there yet", "run.device=cpu");
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

constexpr std::string_view kAccumulationKeys[] = {"accumulation", "reshard_after_backward",
                                                  "is_last_backward", "precision.keep_low_grads"};

bool IsOfAccumulation(std::string_view key) {
  return std::ranges::find(kAccumulationKeys, key) != std::end(kAccumulationKeys);
}

// What came with a checkpoint and does not apply changes nothing.
bool IsInForce(const Config& config, std::string_view key) {
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  return config.IsGiven(key) || Applies(key, strategy, config.Get("preset"));
}

Status CheckAccumulation(const Config& config) {
  const plan::Strategy& strategy = *plan::FindStrategy(config.Get("strategy"));
  if (config.Get("accumulation") == "reduce_scatter_only" && !strategy.replicates_shards() &&
      IsInForce(config, "accumulation")) {
    return Status::Error(
        fmt::format("{} is about replicas, which {} does not have: set strategy=hybrid, or "
                    "accumulation=no_sync",
                    Shown(config, "accumulation"), Shown(config, "strategy")));
  }
  for (const std::string_view key : kAccumulationKeys) {
    const std::string& plain = FindKey(key)->default_value;
    const bool is_plain = config.Get(key) == plain || !IsInForce(config, key);
    if (config.Get("offload") == "none" || is_plain) continue;
    return Status::Error(fmt::format(
        "{} takes every micro-batch's gradient to the host, and does not go with {}: set {}={}, or "
        "offload=none",
        Shown(config, "offload"), Shown(config, key), key, plain));
  }
  if (config.GetBool("scaler.enabled") && strategy.is_rooted) {
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
  const std::string& device = config.Get("run.device");
  if (device == "cpu" && (transport == "nccl" || transport == "local"))
    return Status::Error(fmt::format(
        "{} moves the memory of GPUs and does not go with {}: set run.device=cuda, or use "
        "shared_memory, emulated or gloo",
        Shown(config, "transport"), Shown(config, "run.device")));
  if (device == "cuda" && config.Get("pipeline.schedule") == "interleaved")
    return Status::Error(
        "pipeline.schedule=interleaved has ranks that send to each other at once, which they can "
        "on "
        "the CPU only: set pipeline.schedule=1f1b, or run.device=cpu");
  if (device == "cuda" && (transport == "shared_memory" || transport == "gloo"))
    return Status::Error(fmt::format(
        "{} moves the memory of the host and does not go with {}: use nccl, local or emulated",
        Shown(config, "transport"), Shown(config, "run.device")));
  return Status::Ok();
}

Status CheckProcesses(const Config& config) {
  const std::string& transport = config.Get("transport");
  const bool has_processes = transport == "gloo" || transport == "nccl";
  if (!plan::FindStrategy(config.Get("strategy"))->is_rooted || !has_processes) {
    return Status::Ok();
  }
  return Status::Error(
      fmt::format("{} is one process with all ranks, and {} has one for each: set transport={}, or "
                  "strategy=ddp",
                  Shown(config, "strategy"), Shown(config, "transport"),
                  config.Get("run.device") == "cuda" ? "local" : "shared_memory"));
}

Status CheckFaults(const Config& config) {
  const auto check = [&](std::string_view key, int rank) {
    if (rank < config.GetInt("run.ranks")) return Status::Ok();
    return Status::Error(fmt::format("{}: there is no rank {} with {}", Shown(config, key), rank,
                                     Shown(config, "run.ranks")));
  };
  for (const Fault& fault : GetFaults(config)) {
    SHARDSCOPE_RETURN_IF_ERROR(check(KeyOf(fault.kind), fault.rank));
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

// trace/record/size_bound.h: batches, log and segments must fit.
Status CheckRecord(const Config& config) {
  constexpr int64_t kLeastBytes = 4'000'000;
  const int64_t bytes = config.GetInt("record.max_bytes");
  if (bytes == 0 || bytes >= kLeastBytes) return Status::Ok();
  return Status::Error(
      fmt::format("{} is too small to record a step: give 0 (no limit) or at least 4MB",
                  Shown(config, "record.max_bytes")));
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

// `stages`: of a pipeline.
plan::UnitPolicy UnitsOf(const Config& config, const plan::Strategy& strategy, int32_t stages) {
  plan::UnitPolicy units = GetUnitPolicy(config);
  units.root = config.GetBool("unit.root");
  units.stages = stages;
  if (strategy.has_element_budgets) {
    units.persistence_threshold = config.GetInt("zero.persistence_threshold");
  }
  if (strategy.wraps) return units;
  if (!strategy.shards_optimizer) {
    units.bucket_bytes = config.GetInt("ddp.bucket_cap");
    units.first_bucket_bytes = std::min(units.first_bucket_bytes, units.bucket_bytes);
    return units;
  }
  const int64_t element_bytes = config.Get("precision.param") == "fp64" ? 8 : 4;
  units.bucket_bytes = config.GetInt("zero.reduce_bucket_size") * element_bytes;
  units.first_bucket_bytes = units.bucket_bytes;
  return units;
}

plan::PipelineSchedule PipelineScheduleOf(const Config& config) {
  const std::string& name = config.Get("pipeline.schedule");
  if (name == "gpipe") return plan::PipelineSchedule::kGpipe;
  return name == "1f1b" ? plan::PipelineSchedule::k1F1B : plan::PipelineSchedule::kInterleaved;
}

plan::DType ParseDType(const std::string& text) {
  if (text == "bf16") return plan::DType::kBf16;
  if (text == "fp16") return plan::DType::kFp16;
  return text == "fp64" ? plan::DType::kFp64 : plan::DType::kFp32;
}

}  // namespace

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

plan::OptimizerKind GetOptimizer(const Config& config) {
  const std::string& name = config.Get("optimizer.kind");
  if (name == "sgd") return plan::OptimizerKind::kSgd;
  return name == "adam" ? plan::OptimizerKind::kAdam : plan::OptimizerKind::kAdamw;
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

bool Applies(std::string_view key, const plan::Strategy& strategy, std::string_view preset) {
  const bool has_slots = preset == "double_buffer" && strategy.has_presets;
  if (has_slots && key.starts_with("prefetch.")) return false;  // one unit ahead, always
  if (key == "preset") return strategy.has_presets;
  if (IsOfAccumulation(key)) {
    return strategy.has_presets && strategy.shards_parameters && !has_slots;
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
  std::vector<const plan::Strategy*> chosen = {plan::FindStrategy(config.Get("strategy"))};
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

namespace {

void SetNumerics(const Config& config, plan::Policy* policy) {
  if (Applies("accumulation", *policy->strategy, config.Get("preset"))) {
    plan::Accumulation& accumulation = policy->accumulation;
    const std::string& sync = config.Get("accumulation");
    if (sync == "no_sync") accumulation.sync = plan::GradientSync::kNoSync;
    if (sync == "reduce_scatter_only") accumulation.sync = plan::GradientSync::kReduceScatterOnly;
    accumulation.reshards = config.GetBool("reshard_after_backward");
    accumulation.waits = config.GetBool("is_last_backward");
  }
  // Whether it applies or not: what ranks keep has one dtype from the first step on, so that a
  // change to where it does not is refused.
  policy->accumulation.keeps_dtype = config.GetBool("precision.keep_low_grads");
  policy->update.has_scaler = config.GetBool("scaler.enabled");
  policy->update.state = plan::StateTensorsOf(
      GetOptimizer(config),
      config.Get("optimizer.state") == "8bit" ? plan::StateForm::kBlocks : plan::StateForm::kMaster,
      config.GetFloat("optimizer.momentum") > 0);
}

}  // namespace

plan::Policy ToPolicy(const Config& config) {
  plan::Policy policy;
  const std::string& backward = config.Get("prefetch.backward");
  const auto small = [&](std::string_view key) { return static_cast<int>(config.GetInt(key)); };
  if (config.Get("preset") == "fsdp1") policy.preset = plan::Preset::kFsdp1;
  if (config.Get("preset") == "double_buffer") policy.preset = plan::Preset::kDoubleBuffer;
  policy.strategy = plan::FindStrategy(config.Get("strategy"));
  policy.reshard_after_forward = config.GetBool("reshard_after_forward");
  if (backward == "post") policy.backward_prefetch = plan::BackwardPrefetch::kPost;
  if (backward == "none") policy.backward_prefetch = plan::BackwardPrefetch::kNone;
  policy.backward_depth = small("prefetch.backward_depth");
  policy.forward_prefetch = small("prefetch.forward");
  policy.prefetch_lists = GetPrefetchLists(config);
  policy.prefetch_limit = small("prefetch.limit");
  policy.run_ahead = small("host.run_ahead");
  policy.budgets = {.prefetch_bucket_size = config.GetInt("zero.prefetch_bucket_size"),
                    .max_live_parameters = config.GetInt("zero.max_live_parameters"),
                    .max_reuse_distance = config.GetInt("zero.max_reuse_distance")};
  policy.overlap_comm =
      !Applies("zero.overlap_comm", *policy.strategy) || config.GetBool("zero.overlap_comm");
  policy.num_communicators = small("comm.communicators");
  policy.mesh = MeshOf(config).value();
  const int32_t pipeline_ranks = policy.mesh.size(plan::MeshDimension::kPipeline);
  const bool overlaps = pipeline_ranks > 1 && policy.strategy->overlaps_stages;
  const int64_t reshard_ranks = GetReshardRanks(config).value_or(0);
  if (reshard_ranks < policy.mesh.size(plan::MeshDimension::kShard)) {
    policy.post_forward_ranks = static_cast<int>(reshard_ranks);
  }
  policy.units = UnitsOf(config, *policy.strategy,
                         overlaps ? pipeline_ranks * small("pipeline.chunks") : pipeline_ranks);
  policy.units.tensor_ranks = policy.mesh.size(plan::MeshDimension::kTensor);
  policy.units.sequence_parallel =
      policy.units.tensor_ranks > 1 && config.GetBool("tensor.sequence_parallel");
  policy.tensor_async = policy.units.tensor_ranks > 1 && config.GetBool("tensor.async");
  if (overlaps) policy.pipeline = PipelineScheduleOf(config);
  policy.micro_batches = small("train.micro_batches");
  policy.checkpointing = GetCheckpointing(config);
  policy.offload = OffloadOf(config);
  SetNumerics(config, &policy);
  // A scaler too says of no unit before all whether it is updated.
  policy.update.clips = policy.offload != plan::Offload::kAll || policy.update.has_scaler ||
                        config.GetFloat("train.clip") > 0;
  policy.param_dtype = ParseDType(config.Get("precision.param"));
  policy.reduce_dtype = ParseDType(config.Get("precision.reduce"));
  policy.master_dtype =
      policy.param_dtype == plan::DType::kFp64 ? plan::DType::kFp64 : plan::DType::kFp32;
  return policy;
}

}  // namespace shardscope::config
