#include "engine/model/weight_folder.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "engine/model/huggingface.h"
#include "engine/model/model_config.h"
#include "trace/base/input_file.h"
#include "trace/base/text.h"

namespace shardscope::model {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostIndexBytes = size_t{100} << 20;

// What older versions of transformers have written and is not read.
bool IsIdle(const ModelConfig& config, const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight");
}

}  // namespace

Result<std::shared_ptr<const WeightFolder>> WeightFolder::Open(const std::string& folder,
                                                               const ModelConfig& config) {
  const auto weights = std::make_shared<WeightFolder>();
  Status status = weights->OpenFiles(folder);
  if (status.ok()) status = weights->Check(folder, config, /*of_adapters=*/false);
  if (!status.ok()) return Status::Error("model.path: " + Printable(status.message()));
  return std::shared_ptr<const WeightFolder>(weights);
}

Result<std::shared_ptr<const WeightFolder>> WeightFolder::OpenAdapters(const std::string& folder,
                                                                       const ModelConfig& config) {
  const auto adapters = std::make_shared<WeightFolder>();
  Status status = adapters->AddFile(folder + "/adapter_model.safetensors");
  if (status.ok()) status = adapters->Check(folder, config, /*of_adapters=*/true);
  if (!status.ok()) return Status::Error("lora.path: " + Printable(status.message()));
  return std::shared_ptr<const WeightFolder>(adapters);
}

Status WeightFolder::OpenFiles(const std::string& folder) {
  const std::string index = folder + "/model.safetensors.index.json";
  const std::string alone = folder + "/model.safetensors";
  std::error_code error;
  if (std::filesystem::exists(alone, error)) return AddFile(alone);
  if (std::filesystem::exists(index, error)) return OpenIndex(folder, index);
  return Status::Error(folder +
                       " has neither model.safetensors nor model.safetensors.index.json; other "
                       "formats are not read");
}

Status WeightFolder::OpenIndex(const std::string& folder, const std::string& index_path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path, kMostIndexBytes));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return Status::Error(index_path + " is no JSON object with a weight_map");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) {
      return Status::Error(index_path + ": weight_map names no file of the folder for " + tensor);
    }
    names.insert(name);
  }
  for (const std::string& name : names) {
    Status status = AddFile(folder + "/" + name);
    if (!status.ok()) {
      return Status::Error(status.message() + " (" + index_path + " names it)");
    }
  }
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const auto place = places_.find(tensor);
    const std::string path = folder + "/" + file.get<std::string>();
    if (place == places_.end() || place->second.file->path() != path) {
      return Status::Error(path + " has no tensor " + tensor + ", which " + index_path +
                           " says it has");
    }
  }
  return Status::Ok();
}

Status WeightFolder::AddFile(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  files_.push_back(std::make_unique<const SafetensorsFile>(std::move(file)));
  for (const auto& [name, entry] : files_.back()->entries()) {
    const auto [place, is_new] = places_.emplace(name, Place{files_.back().get(), entry});
    if (is_new) continue;
    return Status::Error("tensor " + name + " is in both " + place->second.file->path() + " and " +
                         path);
  }
  return Status::Ok();
}

Status WeightFolder::Check(const std::string& folder, const ModelConfig& config,
                           bool of_adapters) const {
  const std::string says =
      of_adapters ? "the model and its adapter_config.json imply" : "its config.json implies";
  std::set<std::string> known;
  for (const plan::Parameter& parameter : AllParameters(config)) {
    if (IsAdapter(parameter.name) != of_adapters) continue;
    const std::string name = HuggingFaceName(parameter.name);
    known.insert(name);
    const auto place = places_.find(name);
    if (place == places_.end()) {
      return Status::Error(folder + " has no tensor " + name + ", which " + says);
    }
    const SafetensorsFile::Entry& entry = place->second.entry;
    const std::string& path = place->second.file->path();
    if (entry.shape != parameter.shape) {
      return Status::Error(fmt::format("{}: tensor {} is [{}], {} [{}]", path, name,
                                       fmt::join(entry.shape, ", "), says,
                                       fmt::join(parameter.shape, ", ")));
    }
    if (!entry.is_float()) {
      return Status::Error(fmt::format("{}: tensor {} is {}: weights have to be F32, F16 or BF16",
                                       path, name, entry.dtype));
    }
  }
  for (const auto& [name, place] : places_) {
    if (known.contains(name) || IsIdle(config, name)) continue;
    return Status::Error(place.file->path() + " has a tensor " + name +
                         (of_adapters ? ", which is no adapter of its adapter_config.json"
                                      : ", which a model of its config.json does not have"));
  }
  return Status::Ok();
}

const WeightFolder::Place& WeightFolder::PlaceOf(const plan::Parameter& parameter) const {
  return places_.at(HuggingFaceName(parameter.name));
}

void WeightFolder::Read(const plan::Parameter& parameter, int64_t first,
                        const at::Tensor& values) const {
  const Place& place = PlaceOf(parameter);
  if (place.file->Read(place.entry, first, values)) return;
  // As the file has them: in a narrower dtype a large number is infinite.
  constexpr int64_t kBlock = int64_t{1} << 16;
  for (int64_t at = 0; at < values.numel(); at += kBlock) {
    std::vector<double> block(static_cast<size_t>(std::min(kBlock, values.numel() - at)));
    place.file->Read(place.entry, first + at,
                     at::from_blob(block.data(), {std::ssize(block)}, at::kDouble));
    const auto broken = std::ranges::find_if(block, [](double one) { return !std::isfinite(one); });
    if (broken == block.end()) continue;
    throw std::runtime_error(fmt::format(
        "{}.path: {}: tensor {} has {} at element {}: take weights that are all numbers",
        IsAdapter(parameter.name) ? "lora" : "model", place.file->path(),
        HuggingFaceName(parameter.name), *broken, first + at + (broken - block.begin())));
  }
}

void WeightFolder::WillRead(const plan::Parameter& parameter, int64_t first, int64_t count) const {
  const Place& place = PlaceOf(parameter);
  place.file->WillRead(place.entry, first, count);
}

void WeightFolder::HasRead(const plan::Parameter& parameter, int64_t first, int64_t count) const {
  const Place& place = PlaceOf(parameter);
  place.file->HasRead(place.entry, first, count);
}

}  // namespace shardscope::model
