#include "engine/footprint/memory_choices.h"

#include <set>
#include <string>
#include <utility>

#include "engine/plan/strategy.h"

namespace shardscope::footprint {
namespace {

Result<MemoryChoice> Choose(const config::Config& config, Settings settings,
                            std::optional<Effect> effect) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const config::Config changed, With(config, settings));
  MemoryChoice choice{.settings = std::move(settings), .effect = effect, .footprint = {}};
  SHARDSCOPE_ASSIGN_OR_RETURN(choice.footprint, FootprintOf(changed));
  return choice;
}

}  // namespace

std::vector<MemoryChoice> MemoryChoices(const config::Config& config) {
  std::vector<MemoryChoice> choices;
  std::set<Settings> seen;
  const auto add = [&](Settings settings, std::optional<Effect> effect) {
    if (!seen.insert(settings).second) return;
    Result<MemoryChoice> choice = Choose(config, std::move(settings), effect);
    if (choice.ok()) choices.push_back(std::move(choice).value());
  };
  const std::string& now = config.Get("strategy");
  for (const plan::Strategy& strategy : plan::Strategies()) {
    if (strategy.name != now) add(ToStrategy(config, strategy), std::nullopt);
  }
  for (const MemoryOption& option : AllMemoryOptions()) {
    for (Settings& settings : SettingsOf(option, config)) add(std::move(settings), option.effect);
  }
  return choices;
}

}  // namespace shardscope::footprint
