// What each single change of a configuration would make of the memory that it takes: another
// strategy, or one of memory_options.h. `shardscope plan --memory` prints them, the app's panel
// Blocks lists them beside a peak.
#pragma once

#include <optional>
#include <vector>

#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "engine/footprint/memory_options.h"

namespace shardscope::footprint {

struct MemoryChoice {
  Settings settings;             // on top of the configuration
  std::optional<Effect> effect;  // on what a run learns; none: another strategy
  Footprint footprint;
};

// Strategies in their order, then options, those that change least first; what no step could be
// run with is left out. `config` has passed Check(). Takes about a millisecond each with small
// models.
std::vector<MemoryChoice> MemoryChoices(const config::Config& config);

}  // namespace shardscope::footprint
