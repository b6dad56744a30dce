// How the ranks lie: mesh.*, and what shares them (stages, layers, shards).
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/config/mesh_keys.h"
#include "engine/config/rules.h"
#include "engine/plan/conflicts.h"
#include "trace/base/round_up.h"
#include "trace/base/text.h"

namespace shardscope::config {
namespace {

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
  return Status::Error(fmt::format(
      "{} cannot be split among {} ranks along mesh.tensor, as {} asks for: set "
      "model.seq={}, or {}=false",
      Shown(config, "model.seq"), ranks, Shown(config, kKey), RoundUp(seq, int64_t{ranks}), kKey));
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

}  // namespace

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

Status CheckMesh(const Config& config) {
  const plan::Strategy& strategy = GetStrategy(config);
  if (strategy.dimensions == 0 && config.GetInt("run.ranks") > 1) {
    return Status::Error(fmt::format("{} is one rank, not {}: set run.ranks=1, or strategy=ddp",
                                     Shown(config, "strategy"), Shown(config, "run.ranks")));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::Mesh mesh, MeshOf(config));
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

Status CheckReshardRanks(const Config& config) {
  const std::optional<int64_t> ranks = GetReshardRanks(config);
  if (!ranks) return Status::Ok();
  const std::string shown = Shown(config, "reshard_after_forward");
  const plan::Policy policy = ToPolicy(config);
  switch (plan::ConflictOfPostForwardRanks(policy, static_cast<int>(*ranks))) {
    case plan::Conflict::kPreset:
      return Status::Error(
          fmt::format("{} does not go with {}, which reshards among all ranks: set preset=fsdp2, "
                      "or reshard_after_forward=true",
                      shown, Shown(config, "preset")));
    case plan::Conflict::kStrategy:
      return Status::Error(
          fmt::format("{} does not go with {}: set reshard_after_forward=true, or strategy=full",
                      shown, Shown(config, "strategy")));
    case plan::Conflict::kStages:
      return Status::Error(fmt::format(
          "{} does not go with stages ({}): set reshard_after_forward=true, or mesh.pipeline=1",
          shown, Shown(config, "mesh.pipeline")));
    case plan::Conflict::kRanks:
      return Status::Error(
          fmt::format("{} ranks are no part of the {} ranks that share a unit (mesh.shard): set "
                      "reshard_after_forward to a number that divides them, or to true",
                      shown, policy.mesh.size(plan::MeshDimension::kShard)));
    case plan::Conflict::kNone:
    case plan::Conflict::kWholeParameters:
    case plan::Conflict::kOffload:
      break;
  }
  return Status::Ok();
}

}  // namespace shardscope::config
