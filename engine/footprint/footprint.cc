#include "engine/footprint/footprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/config/device.h"
#include "engine/footprint/unlisted_memory.h"
#include "engine/model/huggingface.h"
#include "engine/plan/policy.h"
#include "engine/plan/written_schedule.h"
#include "engine/transport/gloo_scratch.h"

namespace shardscope::footprint {
namespace {

ScratchBytes ScratchOf(const config::Config& config) {
  if (config.Get("transport") != "gloo") return {};
  const auto num_ranks = static_cast<int>(config.GetInt("run.ranks"));
  return [num_ranks](plan::OpKind kind, int64_t payload_bytes, int64_t pieces) {
    return transport::GlooScratchBytes(kind, payload_bytes, pieces, num_ranks);
  };
}

using KeysOfFolder = std::vector<std::pair<const char*, std::string>>;

// What `file` says in the folder of the key `of`.
Status TakeKeys(const char* of, const char* file, const KeysOfFolder& keys,
                config::Config* config) {
  for (const auto& [key, value] : keys) {
    const bool is_explicit = config->IsExplicit(key);
    const std::string given = config->Get(key);
    const Status status = config->Set(key, value);
    if (!status.ok()) return Status::Error(std::string(of) + ": " + status.message());
    if (!is_explicit || config->Get(key) == given) continue;
    return Status::Error(fmt::format("{}={} contradicts {}, whose {} has {}: leave it out", key,
                                     given, of, file, value));
  }
  return Status::Ok();
}

Status ApplyAdapterFolder(config::Config* config) {
  const std::string& folder = config->Get("lora.path");
  if (folder.empty()) return Status::Ok();
  if (config->Get("model.path").empty()) {
    return Status::Error(
        "lora.path names adapters, and not of which model: set model.path to the folder that they "
        "were trained over");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::AdapterConfig adapter, model::ReadAdapterConfig(folder));
  return TakeKeys("lora.path", "adapter_config.json",
                  {{"lora.rank", std::to_string(adapter.rank)},
                   {"lora.alpha", fmt::format("{}", adapter.alpha)},
                   {"lora.targets", fmt::format("{}", fmt::join(adapter.targets, ","))}},
                  config);
}

Status ApplyModelFolder(config::Config* config) {
  const std::string& folder = config->Get("model.path");
  if (folder.empty()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model,
                              model::ReadFolderConfig(folder, config->GetInt("model.seq")));
  return TakeKeys("model.path", "config.json",
                  {{"model.kind", "llama"},
                   {"model.layers", std::to_string(model.layers)},
                   {"model.dim", std::to_string(model.dim)},
                   {"model.heads", std::to_string(model.heads)},
                   {"model.kv_heads", std::to_string(model.kv_heads)},
                   {"model.ffn", std::to_string(model.ffn)},
                   {"model.vocab", std::to_string(model.vocab)}},
                  config);
}

// As DescriptionOf(), of what ModelConfigOf() says.
Result<plan::ModelDescription> Describe(const config::Config& config,
                                        const model::ModelConfig& model) {
  const plan::UnitPolicy units = config::ToPolicy(config).units;
  SHARDSCOPE_RETURN_IF_ERROR(model::CheckUnits(model, units));
  return model::DescribeModel(model, units, config.GetInt("train.batch"));
}

// What ranks take with `footprint`'s Schedule.
void Measure(const config::Config& config, const model::ModelConfig& model, CheckpointCopy copy,
             Footprint* footprint) {
  footprint->issued_bytes = plan::PredictLargestPeak(footprint->schedule);
  plan::Unlisted unlisted =
      UnlistedMemory(model, config.GetInt("train.batch"), footprint->schedule, ScratchOf(config));
  footprint->has_checkpoint_copy = copy == CheckpointCopy::kThere || WantsCheckpointCopy(config);
  if (footprint->has_checkpoint_copy) {
    unlisted = WithCheckpointCopy(std::move(unlisted), footprint->schedule,
                                  config::ToPolicy(config).master_dtype);
  }
  footprint->most = plan::LargestMoment(footprint->schedule, unlisted);
}

}  // namespace

Status ApplyFolders(config::Config* config) {
  SHARDSCOPE_RETURN_IF_ERROR(ApplyModelFolder(config));
  return ApplyAdapterFolder(config);
}

Result<model::ModelConfig> ModelConfigOf(const config::Config& config) {
  model::ModelConfig model;
  const std::string& folder = config.Get("model.path");
  if (folder.empty()) {
    const bool is_gpt = config.Get("model.kind") == "gpt";
    model.layers = config.GetInt("model.layers");
    model.dim = config.GetInt("model.dim");
    model.heads = config.GetInt("model.heads");
    model.seq = config.GetInt("model.seq");
    model.kind = is_gpt ? model::ModelKind::kGpt : model::ModelKind::kLlama;
    model.kv_heads = config::GetKvHeads(config);
    model.ffn = config::GetFfn(config);
    model.vocab = config.GetInt("model.vocab");
  } else {
    SHARDSCOPE_ASSIGN_OR_RETURN(model, model::ReadFolderConfig(folder, config.GetInt("model.seq")));
  }
  model.dtype = config::ToPolicy(config).param_dtype;
  model.logits_block = config.GetInt("train.logits_block");
  const config::FineTuning tuning = config::GetFineTuning(config);
  model.frozen = tuning.frozen;
  model.lora = {.rank = tuning.rank, .alpha = tuning.alpha, .targets = tuning.targets};
  return model;
}

Result<plan::ModelDescription> DescriptionOf(const config::Config& config) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model, ModelConfigOf(config));
  return Describe(config, model);
}

bool WantsCheckpointCopy(const config::Config& config) {
  return config.GetInt("checkpoint.every") > 0 &&
         config::GetDevice(config) != config::DeviceKind::kCuda;
}

Result<Footprint> FootprintOf(const config::Config& config, CheckpointCopy copy,
                              const plan::Schedule* written) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model, ModelConfigOf(config));
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::ModelDescription description, Describe(config, model));
  Footprint footprint;
  SHARDSCOPE_ASSIGN_OR_RETURN(footprint.schedule,
                              plan::BuildSchedule(description, config::ToPolicy(config)));
  if (const std::string& path = config.Get("schedule.file"); !path.empty()) {
    plan::Schedule read;
    if (written == nullptr) {
      SHARDSCOPE_ASSIGN_OR_RETURN(read, plan::ReadSchedule(path));
      written = &read;
    }
    SHARDSCOPE_RETURN_IF_ERROR(plan::CheckSameWork(footprint.schedule, *written, path));
    footprint.schedule = *written;
  }
  Measure(config, model, copy, &footprint);
  return footprint;
}

Result<Footprint> EvaluationFootprintOf(const config::Config& config, CheckpointCopy copy) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model, ModelConfigOf(config));
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::ModelDescription description, Describe(config, model));
  Footprint footprint;
  SHARDSCOPE_ASSIGN_OR_RETURN(footprint.schedule,
                              plan::BuildEvaluation(description, config::ToPolicy(config)));
  Measure(config, model, copy, &footprint);
  return footprint;
}

}  // namespace shardscope::footprint
