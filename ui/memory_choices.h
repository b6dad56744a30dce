// What one change of its configuration would make of a run's highest peak: for the panel Blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/footprint/memory_options.h"
#include "ui/commands.h"
#include "ui/context.h"
#include "ui/language.h"

namespace shardscope::ui {

struct MemoryChoice {
  std::map<std::string, std::string> settings;
  std::optional<footprint::Effect> effect;  // on what it learns; none: another strategy
  int64_t needed_bytes = 0;                 // at most, in any order of execution
  bool is_live = false;                     // a run that trains can be turned so
};

struct MemoryChoices {
  std::string error;                  // why there are none
  int64_t needed_bytes = 0;           // as it is
  std::vector<MemoryChoice> choices;  // what saves and changes least first
};

// Of a run's keys (analysis::ConfigAt), as `shardscope plan --memory --run` has it. Any thread;
// milliseconds, with large models more: not in a frame.
MemoryChoices MemoryChoicesOf(const std::map<std::string, std::string>& values);

// "same results", "less precise", "another strategy".
std::string EffectText(Language language, const MemoryChoice& choice);

// Turns its knobs where the run can be turned so now, else shows the first of them in the form of a
// new run.
Commands Choose(const Context& context, const MemoryChoice& choice);

}  // namespace shardscope::ui
