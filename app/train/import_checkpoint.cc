#include "app/train/import_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/say.h"
#include "engine/checkpoint/dcp/import_dcp.h"
#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "engine/model/huggingface.h"
#include "engine/model/model_config.h"
#include "trace/base/text.h"

namespace shardscope::app {
namespace {

Status ApplySettings(const ImportArguments& arguments, config::Config* config) {
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, config));
  }
  return Status::Ok();
}

// What the weights say of the model, and over it what is given; with model.path what its
// config.json says.
Result<config::Config> SettingsFor(const checkpoint::DcpImport& import,
                                   const ImportArguments& arguments) {
  config::Config given;
  SHARDSCOPE_RETURN_IF_ERROR(ApplySettings(arguments, &given));
  config::MakePathsAbsolute(&given);
  SHARDSCOPE_RETURN_IF_ERROR(footprint::ApplyFolders(&given));
  if (!given.Get("model.path").empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(given.Check());
    return given;
  }
  if (!given.IsExplicit("model.heads")) {
    return Status::Error(
        "the shapes of weights do not say how many attention heads there are: add --set "
        "model.heads=N");
  }
  config::Config config;
  SHARDSCOPE_RETURN_IF_ERROR(config.SetAll(import.ModelKeys(given.GetInt("model.heads"))));
  SHARDSCOPE_RETURN_IF_ERROR(ApplySettings(arguments, &config));
  config::MakePathsAbsolute(&config);
  SHARDSCOPE_RETURN_IF_ERROR(config.Check());
  return config;
}

// Error: the weights are not those of the model.
Status CheckModel(const checkpoint::DcpImport& import, const config::Config& config,
                  const model::ModelConfig& model) {
  const Status status = import.CheckParameters(model::AllParameters(model));
  if (status.ok()) return status;
  return Status::Error(
      status.message() +
      (config.Get("model.path").empty()
           ? ": set model.* as it was trained, or model.path=FOLDER where its config.json says "
             "what no key does (head_dim, tie_word_embeddings, biases of q, k and v)"
           : ": set model.path to the folder whose config.json it was trained with"));
}

}  // namespace

Status ImportCheckpoint(const ImportArguments& arguments) {
  constexpr size_t kNamed = 5;
  SHARDSCOPE_ASSIGN_OR_RETURN(checkpoint::DcpImport import,
                              checkpoint::DcpImport::Open(arguments.dcp));
  SHARDSCOPE_ASSIGN_OR_RETURN(const config::Config config, SettingsFor(import, arguments));
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model, footprint::ModelConfigOf(config));
  if (model.tied) SHARDSCOPE_RETURN_IF_ERROR(import.TieHead());
  SHARDSCOPE_RETURN_IF_ERROR(CheckModel(import, config, model));
  // Of a llama the weights do not say it. What is assumed is not written as if it were known: a run
  // that goes on may still name the folder.
  const bool is_assumed =
      model.kind == model::ModelKind::kLlama && config.Get("model.path").empty();
  checkpoint::DcpImport::Settings settings{
      .config = config.Values(), .model = {}, .toml = config::PrintToml(config)};
  if (!is_assumed) settings.model = model::FieldsBesideKeys(model);
  SHARDSCOPE_RETURN_IF_ERROR(import.Write(arguments.out, settings));
  Print(fmt::format("checkpoint: {}\n", arguments.out));
  if (is_assumed) {
    Print(fmt::format(
        "rope_theta={} and rms_norm_eps={} are assumed: import with --set model.path=FOLDER where "
        "its config.json says otherwise\n",
        model.rope_theta, model.norm_epsilon));
  }
  if (import.left_out().empty()) return Status::Ok();
  std::vector<std::string> named = import.left_out();
  const size_t more = named.size() - std::min(named.size(), kNamed);
  named.resize(named.size() - more);
  if (more > 0) named.push_back(fmt::format("and {} more", more));
  Print(fmt::format("left out, as no part of the model: {}\n", Join(named, ", ")));
  return Status::Ok();
}

}  // namespace shardscope::app
