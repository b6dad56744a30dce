// What a run that goes on has from its checkpoint, beside what the user gives.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/faults.h"
#include "engine/config/rules.h"
#include "trace/base/check.h"
#include "trace/base/text.h"

namespace shardscope::config {

void Config::Inherit() {
  for (auto& [key, value] : values_) value.is_inherited = value.is_explicit;
}

bool Config::IsGiven(std::string_view key) const {
  const auto found = values_.find(key);
  SHARDSCOPE_CHECK(found != values_.end());
  return found->second.is_explicit && !found->second.is_inherited;
}

void Config::Unset(std::string_view key) {
  const KeyInfo* info = FindKey(key);
  SHARDSCOPE_CHECK(info != nullptr);
  values_[info->name] = {.text = info->default_value};
  RefreshDefaults();
}

bool MustHaveEffect(const Config& config, std::string_view key) {
  return config.IsGiven(key) && config.Get(key) != FindKey(key)->default_value;
}

namespace {

// Whether what a run learns is the same without it: how its work is arranged, and what shall go
// wrong there. The strategy stays: it says what the others have to go with.
bool MayGiveWay(const KeyInfo& key) {
  const bool arranges = key.live && (key.shapes_schedule || key.is_of_model);
  return (arranges && key.name != "strategy") || IsOfAccumulation(key.name) || IsFaultKey(key.name);
}

Config Without(Config config, const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys) config.Unset(key);
  return config;
}

// The inherited keys that have to go so that the others pass Check(), in the order of AllKeys().
// All where nothing helps, so that Check() says what is wrong with what was given.
std::vector<std::string_view> UnfitKeys(const Config& config) {
  std::vector<std::string_view> out;
  for (const KeyInfo& key : AllKeys()) {
    const bool is_inherited = config.IsExplicit(key.name) && !config.IsGiven(key.name);
    if (is_inherited && MayGiveWay(key)) out.push_back(key.name);
  }
  if (out.empty() || config.Check().ok()) return {};
  // Each comes back that goes with what is there by then. One may need another that does.
  for (size_t at = 0; at < out.size();) {
    std::vector<std::string_view> fewer = out;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
    if (Without(config, fewer).Check().ok()) {
      out = std::move(fewer);
      at = 0;
    } else {
      ++at;
    }
  }
  return out;
}

}  // namespace

std::string SettleInherited(Config* config) {
  // Ranks would keep gradients in a dtype that the strategy does not have.
  constexpr std::string_view kKeepsDType = "precision.keep_low_grads";
  if (!config->IsGiven(kKeepsDType) &&
      !Applies(kKeepsDType, GetStrategy(*config), config->Get("preset"))) {
    config->Unset(kKeepsDType);
  }
  Config start = *config;
  start.ClearChanges();  // of which Check() says what is wrong
  const std::vector<std::string_view> unfit = UnfitKeys(start);
  if (unfit.empty()) return "";
  *config = Without(std::move(*config), unfit);
  std::vector<std::string> shown;
  for (const std::string_view key : unfit) {
    const std::string& now = config->Get(key);
    shown.push_back(fmt::format("{} (now {})", Shown(start, key), now.empty() ? "empty" : now));
  }
  return Join(shown, ", ");
}

}  // namespace shardscope::config
