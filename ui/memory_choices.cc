#include "ui/memory_choices.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "engine/footprint/footprint.h"
#include "engine/footprint/memory_choices.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::ui {

MemoryChoices MemoryChoicesOf(const std::map<std::string, std::string>& values) {
  MemoryChoices made;
  config::Config config = config::Config::OfValues(values);
  config.ClearChanges();
  Status status = footprint::ApplyFolders(&config);
  if (status.ok()) status = config.Check();
  if (!status.ok()) {
    made.error = status.message();
    return made;
  }
  const Result<footprint::Footprint> now = footprint::FootprintOf(config);
  if (!now.ok()) {
    made.error = now.message();
    return made;
  }
  made.needed_bytes = now->needed_bytes();
  for (footprint::MemoryChoice& choice : footprint::MemoryChoices(config)) {
    const bool is_live = footprint::With(config, choice.settings, /*only_live=*/true).ok();
    made.choices.push_back(
        {std::move(choice.settings), choice.effect, choice.footprint.needed_bytes(), is_live});
  }
  const auto rank = [&made](const MemoryChoice& choice) {
    const bool saves = choice.needed_bytes < made.needed_bytes;
    // Another strategy gives the same results up to rounding, and other traffic.
    const auto effect = choice.effect ? 2 * static_cast<int>(*choice.effect)
                                      : 2 * static_cast<int>(footprint::Effect::kRounding) + 1;
    return std::tuple(!saves, effect, choice.needed_bytes);
  };
  std::stable_sort(made.choices.begin(), made.choices.end(),
                   [&](const MemoryChoice& a, const MemoryChoice& b) { return rank(a) < rank(b); });
  return made;
}

std::string EffectText(Language language, const MemoryChoice& choice) {
  if (!choice.effect) return Tr(language, Text::kChoiceStrategy);
  switch (*choice.effect) {
    case footprint::Effect::kNone:
      return Tr(language, Text::kChoiceSame);
    case footprint::Effect::kRounding:
      return Tr(language, Text::kChoiceRounding);
    case footprint::Effect::kPrecision:
      return Tr(language, Text::kChoicePrecision);
    case footprint::Effect::kTraining:
      return Tr(language, Text::kChoiceTraining);
  }
  return "";
}

Commands Choose(const Context& context, const MemoryChoice& choice) {
  Commands commands;
  if (choice.is_live && CanSteer(context)) {
    for (const auto& [key, value] : choice.settings) commands.push_back(SetKnob{key, value});
  } else if (!choice.settings.empty()) {
    commands.push_back(ShowKey{choice.settings.begin()->first, true});
  }
  return commands;
}

}  // namespace shardscope::ui
