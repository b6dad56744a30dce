#include "engine/config/launch.h"

#include <fmt/format.h>

#include <string_view>

#include "engine/config/device.h"
#include "trace/base/parse_number.h"

namespace shardscope::config {
namespace {

constexpr int kMaxPort = 65535;

struct Bounds {
  int smallest = 0;
  int largest = 0;
};

Result<std::string> VariableText(const Environment& environment, const char* name) {
  const char* value = environment(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return Status::Error(fmt::format(
      "{} is not set, but RANK or WORLD_SIZE is: a launcher sets RANK, WORLD_SIZE, MASTER_ADDR and "
      "MASTER_PORT; for ranks as threads unset RANK and WORLD_SIZE",
      name));
}

Result<int> Number(const Environment& environment, const char* name, Bounds bounds) {
  const Result<std::string> text = VariableText(environment, name);
  if (!text.ok()) return text.status();
  const auto value = ParseInteger<int>(*text, bounds.smallest);
  if (value && *value <= bounds.largest) return *value;
  return Status::Error(fmt::format("{}={}: expected a whole number from {} to {}", name, *text,
                                   bounds.smallest, bounds.largest));
}

}  // namespace

Result<std::optional<Launch>> ReadLaunch(const Environment& environment) {
  if (environment("RANK") == nullptr && environment("WORLD_SIZE") == nullptr) {
    return std::optional<Launch>();
  }
  const int most = static_cast<int>(FindKey("run.ranks")->maximum);
  const Result<int> num_ranks = Number(environment, "WORLD_SIZE", {1, most});
  if (!num_ranks.ok()) return num_ranks.status();
  const Result<int> rank = Number(environment, "RANK", {0, *num_ranks - 1});
  if (!rank.ok()) return rank.status();
  const Result<std::string> address = VariableText(environment, "MASTER_ADDR");
  if (!address.ok()) return address.status();
  const Result<int> port = Number(environment, "MASTER_PORT", {1, kMaxPort});
  if (!port.ok()) return port.status();
  Launch launch;
  launch.rank = *rank;
  launch.num_ranks = *num_ranks;
  launch.num_local_ranks = *num_ranks;
  launch.master_address = *address;
  launch.master_port = *port;
  if (environment("LOCAL_WORLD_SIZE") != nullptr) {
    const Result<int> local = Number(environment, "LOCAL_WORLD_SIZE", {1, *num_ranks});
    if (!local.ok()) return local.status();
    launch.num_local_ranks = *local;
  }
  const char* agent_store = environment("TORCHELASTIC_USE_AGENT_STORE");
  launch.has_launcher_store = agent_store != nullptr && std::string_view(agent_store) == "True";
  if (const char* attempt = environment("TORCHELASTIC_RESTART_COUNT")) launch.attempt = attempt;
  return std::optional<Launch>(std::move(launch));
}

Status ApplyLaunch(const Launch& launch, Config* config) {
  if (config->IsExplicit("run.ranks") && config->GetInt("run.ranks") != launch.num_ranks) {
    return Status::Error(
        fmt::format("run.ranks={} contradicts the launcher's WORLD_SIZE={}: leave run.ranks away",
                    config->Get("run.ranks"), launch.num_ranks));
  }
  const std::string& transport = config->Get("transport");
  const std::string wanted = GetDevice(*config) == DeviceKind::kCuda ? "nccl" : "gloo";
  // Also what a set link.bandwidth implies.
  const bool is_default = !config->IsExplicit("transport") && transport != "emulated";
  if (!is_default && transport != wanted) {
    return Status::Error(
        fmt::format("transport={} is for ranks that are threads of one process, and a launcher "
                    "started one process a rank (RANK={}): use transport={}, or start without "
                    "the launcher",
                    transport, launch.rank, wanted));
  }
  return config->SetAll({{"run.ranks", std::to_string(launch.num_ranks)}, {"transport", wanted}});
}

}  // namespace shardscope::config
