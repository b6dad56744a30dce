#include "engine/runtime/checkpoint/whole_model.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "engine/checkpoint/folder.h"
#include "engine/footprint/footprint.h"
#include "engine/model/data.h"
#include "engine/model/model_config.h"
#include "engine/model/safetensors.h"
#include "engine/runtime/checkpoint/load.h"

namespace shardscope::runtime {
namespace {

Result<at::ScalarType> TypeOf(const std::string& dtype) {
  const std::optional<at::ScalarType> type = model::ScalarTypeOfSafetensors(dtype);
  if (type && c10::isFloatingType(*type)) return *type;
  return Status::Error("the checkpoint has weights of the unknown type " + dtype);
}

}  // namespace

Result<WholeModel> WholeModel::Open(const std::string& path, const std::string& model_folder) {
  std::vector<std::string> passed;
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string folder, checkpoint::FindCheckpoint(path, &passed));
  SHARDSCOPE_ASSIGN_OR_RETURN(checkpoint::Checkpoint checkpoint,
                              checkpoint::Checkpoint::Open(folder));
  WholeModel whole(std::move(checkpoint));
  SHARDSCOPE_RETURN_IF_ERROR(whole.ReadConfig(model_folder));
  SHARDSCOPE_RETURN_IF_ERROR(whole.CheckParameters());
  return whole;
}

Status WholeModel::ReadConfig(const std::string& model_folder) {
  for (const auto& [key, value] : checkpoint_.index().config) {
    const bool is_of_model = key.starts_with("model.") || key.starts_with("lora.");
    if (!is_of_model && key != "data.tokenizer") continue;
    const Status status = config_.Set(key, value);
    if (status.ok()) continue;
    return Status::Error(fmt::format("{}/{}: {}: take another checkpoint", checkpoint_.folder(),
                                     checkpoint::kIndexName, status.message()));
  }
  const bool had_folder = !config_.Get("model.path").empty();
  if (!model_folder.empty()) {
    if (!had_folder) {
      return Status::Error(checkpoint_.folder() +
                           " is of a model without model.path: leave --model away");
    }
    const std::string was_at = checkpoint::CleanedFolder(config_.Get("model.path"));
    SHARDSCOPE_RETURN_IF_ERROR(config_.Set("model.path", model_folder));
    config::MakePathsAbsolute(&config_);
    SHARDSCOPE_RETURN_IF_ERROR(MoveTokenizer(was_at));
  }
  Result<model::ModelConfig> model = footprint::ModelConfigOf(config_);
  if (!model.ok()) {
    std::error_code ignored;
    const bool has_moved = had_folder && model_folder.empty() &&
                           !std::filesystem::exists(config_.Get("model.path"), ignored);
    return Status::Error(model.message() +
                         (has_moved ? ", where it is now with --model FOLDER" : ""));
  }
  model_ = *std::move(model);
  return Status::Ok();
}

// One within the model's folder has moved with it, if it is there now.
Status WholeModel::MoveTokenizer(const std::string& was_at) {
  const std::string& named = config_.Get("data.tokenizer");
  if (named.empty() || named == "bytes") return Status::Ok();
  const std::string tokenizer = checkpoint::CleanedFolder(named);
  if (tokenizer != was_at && !tokenizer.starts_with(was_at + "/")) return Status::Ok();
  const std::string moved = config_.Get("model.path") + tokenizer.substr(was_at.size());
  std::error_code error;
  if (!std::filesystem::exists(moved, error)) return Status::Ok();
  return config_.Set("data.tokenizer", moved);
}

Status WholeModel::CheckParameters() const {
  SHARDSCOPE_RETURN_IF_ERROR(CheckArithmetic(checkpoint_, model_, config_.Get("model.path")));
  for (const plan::Parameter& wanted : model::AllParameters(model_)) {
    const checkpoint::ParameterEntry* entry = checkpoint_.index().Find(wanted.name);
    const checkpoint::TensorEntry* tensor =
        entry == nullptr ? nullptr : entry->Find(checkpoint::kParameter);
    if (tensor == nullptr) {
      return Status::Error(checkpoint_.folder() + " has no parameter " + wanted.name +
                           ": it is of another model");
    }
    if (entry->shape != wanted.shape) {
      return Status::Error(fmt::format(
          "{}: {} has the shape [{}], not [{}]: it is of another model", checkpoint_.folder(),
          wanted.name, fmt::join(entry->shape, ", "), fmt::join(wanted.shape, ", ")));
    }
    const Result<at::ScalarType> type = TypeOf(tensor->dtype);
    if (!type.ok()) return type.status();
  }
  return Status::Ok();
}

// The keys are the checkpoint's, so that only files can have changed.
Status WholeModel::CheckTokenizer(const tokenizer::Tokenizer* tokenizer, const std::string& path,
                                  const std::string& use) const {
  const bool had_bytes = checkpoint_.index().data.tokenizer == model::kByteTokens;
  return runtime::CheckTokenizer(
      checkpoint_, {.fingerprint = model::FingerprintOf(tokenizer),
                    .path = path,
                    .use = use,
                    .remedy = (had_bytes ? "take the tokenizer.json away from "
                                         : "put the tokenizer that it was trained with back to ") +
                              path});
}

Result<at::Tensor> WholeModel::Read(const plan::Parameter& parameter) const {
  const checkpoint::ParameterEntry& entry = *checkpoint_.index().Find(parameter.name);
  const checkpoint::TensorEntry& tensor = *entry.Find(checkpoint::kParameter);
  SHARDSCOPE_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(tensor.dtype));
  const at::Tensor values = at::empty(parameter.shape, type);
  const checkpoint::ElementRun all{.count = values.numel()};
  SHARDSCOPE_RETURN_IF_ERROR(
      checkpoint_.Read(tensor, {&all, 1}, static_cast<std::byte*>(values.mutable_data_ptr())));
  return type == at::kDouble ? values : values.to(at::kFloat);
}

Result<at::Tensor> WholeModel::ReadMerged(const plan::Parameter& parameter) const {
  SHARDSCOPE_ASSIGN_OR_RETURN(at::Tensor values, Read(parameter));
  const std::string stem = parameter.name.substr(0, parameter.name.rfind('.'));
  const std::vector<plan::Parameter> all = model::AllParameters(model_);
  const auto of = [&](const char* name) {
    return std::ranges::find(all, stem + name, &plan::Parameter::name);
  };
  const auto a = of(".lora_A.weight");
  const auto b = of(".lora_B.weight");
  if (!parameter.name.ends_with(".weight") || a == all.end() || b == all.end()) return values;
  SHARDSCOPE_ASSIGN_OR_RETURN(const at::Tensor down, Read(*a));
  SHARDSCOPE_ASSIGN_OR_RETURN(const at::Tensor up, Read(*b));
  return values.addmm_(up, down, 1, model_.lora.scale());
}

}  // namespace shardscope::runtime
