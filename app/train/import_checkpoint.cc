#include "app/train/import_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/say.h"
#include "engine/checkpoint/dcp/import_dcp.h"
#include "engine/config/config.h"
#include "trace/base/text.h"

namespace shardscope::app {
namespace {

Status ApplySettings(const ImportArguments& arguments, config::Config* config) {
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, config));
  }
  return Status::Ok();
}

// What the weights say of the model, and over it what is given.
Result<config::Config> SettingsFor(const checkpoint::DcpImport& import,
                                   const ImportArguments& arguments) {
  config::Config given;
  SHARDSCOPE_RETURN_IF_ERROR(ApplySettings(arguments, &given));
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

}  // namespace

Status ImportCheckpoint(const ImportArguments& arguments) {
  constexpr size_t kNamed = 5;
  SHARDSCOPE_ASSIGN_OR_RETURN(const checkpoint::DcpImport import,
                              checkpoint::DcpImport::Open(arguments.dcp));
  SHARDSCOPE_ASSIGN_OR_RETURN(const config::Config config, SettingsFor(import, arguments));
  SHARDSCOPE_RETURN_IF_ERROR(
      import.Write(arguments.out, config.Values(), config::PrintToml(config)));
  Print(fmt::format("checkpoint: {}\n", arguments.out));
  if (import.left_out().empty()) return Status::Ok();
  std::vector<std::string> named = import.left_out();
  const size_t more = named.size() - std::min(named.size(), kNamed);
  named.resize(named.size() - more);
  if (more > 0) named.push_back(fmt::format("and {} more", more));
  Print(fmt::format("left out, as no part of the model: {}\n", Join(named, ", ")));
  return Status::Ok();
}

}  // namespace shardscope::app
