#include "trace/analysis/config_at.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "trace/base/fsdp_strategies.h"
#include "trace/base/text.h"

namespace shardscope::analysis {
namespace {

struct SetupKey {
  std::string_view name;
  std::optional<std::string_view> off;  // the value that is not said
};
constexpr std::array kSetupKeys = {
    SetupKey{"strategy", {}},
    SetupKey{"preset", {}},
    SetupKey{"precision.param", {}},
    SetupKey{"precision.reduce", "fp32"},
    SetupKey{"checkpointing", "none"},
    SetupKey{"offload", "none"},
    SetupKey{"optimizer.state", "full"},
    SetupKey{"lora.rank", "0"},
    SetupKey{"train.frozen", ""},
    SetupKey{"train.micro_batches", "1"},
};

}  // namespace

std::map<std::string, std::string> ConfigAt(const query::Snapshot& snapshot, int32_t step) {
  std::map<std::string, std::string> config = snapshot.config;
  std::vector<const query::Marker*> changes;
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.kind == Name(query::MarkerKind::kChange) && !marker.key.empty() &&
        marker.step <= step) {
      changes.push_back(&marker);
    }
  }
  std::stable_sort(
      changes.begin(), changes.end(),
      [](const query::Marker* a, const query::Marker* b) { return a->time_ns < b->time_ns; });
  for (const query::Marker* marker : changes) config[marker->key] = marker->new_value;
  return config;
}

Setup SetupAt(const query::Snapshot& snapshot, int32_t step) {
  Setup setup;
  if (snapshot.IsImported()) return setup;
  const std::map<std::string, std::string> config = ConfigAt(snapshot, step);
  const auto strategy = config.find("strategy");
  const bool has_preset = strategy != config.end() &&
                          (IsFsdpStrategy(strategy->second) || strategy->second == "no_shard");
  for (const SetupKey& key : kSetupKeys) {
    const auto found = config.find(std::string(key.name));
    if (found == config.end() || found->second == key.off) continue;
    if (key.name == "preset" && !has_preset) continue;
    setup.emplace_back(found->first, found->second);
  }
  return setup;
}

std::string SetupText(const Setup& setup) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : setup) texts.push_back(key + "=" + value);
  return Join(texts, " ");
}

}  // namespace shardscope::analysis
