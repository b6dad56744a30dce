// What can be changed so that a run takes less memory: the one list that advice and
// `shardscope plan --memory` go through. A new option of the engine adds an entry.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "trace/base/status.h"

namespace shardscope::footprint {

// What it does to what a run learns. Rounding: the same sums in another order or grouping;
// training: other samples in a step.
enum class Effect : uint8_t { kNone, kRounding, kPrecision, kTraining };

std::string_view TextOf(Effect effect);  // for people: "same results"

using Settings = std::map<std::string, std::string>;

// "prefetch.backward=none", several with spaces between them.
std::string TextOf(const Settings& settings);

struct MemoryOption {
  Effect effect = Effect::kNone;
  // What it can set where `config` holds, the smallest change first; empty: nothing. Whether the
  // result passes Check(), and takes less, is for the caller to see.
  std::vector<Settings> (*settings)(const config::Config& config) = nullptr;
};

// Those that change least first.
std::span<const MemoryOption> AllMemoryOptions();

// What the option can set, and with it no schedule.file where that is of other ops then.
std::vector<Settings> SettingsOf(const MemoryOption& option, const config::Config& config);

// `config` with `settings`, as a run could be started with it; `only_live`: as a running one could
// change to it. An error where it could not.
Result<config::Config> With(const config::Config& config, const Settings& settings,
                            bool only_live = false);

// The settings that give `config` another strategy, with the keys that would contradict it.
Settings ToStrategy(const config::Config& config, const plan::Strategy& strategy);

}  // namespace shardscope::footprint
