// What a run that goes on has from its checkpoint, beside what the user gives.
#include <string_view>

#include "engine/config/config.h"
#include "engine/plan/strategy.h"
#include "trace/base/check.h"

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

void SettleInherited(Config* config) {
  constexpr std::string_view kReshard = "reshard_after_forward";
  constexpr std::string_view kKeepsDType = "precision.keep_low_grads";
  const plan::Strategy& strategy = GetStrategy(*config);
  if (config->IsGiven("strategy") && !config->IsGiven(kReshard) &&
      config->GetBool(kReshard) != strategy.reshards_after_forward) {
    config->Unset(kReshard);
  }
  // Ranks would keep gradients in a dtype that the strategy does not have.
  if (!config->IsGiven(kKeepsDType) && !Applies(kKeepsDType, strategy, config->Get("preset"))) {
    config->Unset(kKeepsDType);
  }
}

}  // namespace shardscope::config
