// Out of memory: what a run that is above its limit holds at its peak, and what would make it fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "engine/footprint/memory_options.h"
#include "trace/base/status.h"

namespace shardscope::footprint {

// A change of keys, and what a rank needs with it.
struct Remedy {
  Settings settings;
  Effect effect = Effect::kNone;
  int64_t needed_bytes = 0;
};

struct Advice {
  int64_t needed_bytes = 0;      // without any
  std::vector<Remedy> fitting;   // at most kMostRemedies; those that change least first
  std::vector<Remedy> smallest;  // if none does: of those tried what leaves least, if any saves
  bool model_is_given = false;   // by a folder (model.path): its sizes are no keys
};
inline constexpr size_t kMostRemedies = 3;

// What a rank needs with other keys; an error where they give no step that can be run.
using Needed = std::function<Result<int64_t>(const config::Config& config)>;
Result<int64_t> NeededBytes(const config::Config& config);  // of a run that starts with them

struct Question {
  int64_t limit_bytes = 0;
  bool only_live = false;  // what a running training could change to
  Needed needed = NeededBytes;
  const config::Config* in_force = nullptr;  // of a training that goes on without; borrowed
};

// One option of AllMemoryOptions() after the other; where not enough fit, two of them together,
// then one more with each, from each strategy that saves something. Not every combination, so that
// others may fit where none of these does. Builds a Schedule for each that it tries: some hundred
// at most. Any thread.
Advice Advise(const config::Config& config, int64_t needed_bytes, const Question& question);

// "out of memory: schedule 'fsdp2 full pre1' can need 41.2 MB on a rank (...), engine.memory_limit
// is 40.0 MB. At the peak ... . ..." in one line.
std::string OutOfMemoryText(const config::Config& config, const Footprint& footprint,
                            const Question& question);

// A change of strategy, mesh or units while a run is live: what ranks hold while their state moves.
struct StateMoveNeed {
  std::string from;  // names of Schedules
  std::string to;
  int64_t bytes = 0;  // of the rank that can hold most
};

// The same of such a change that does not fit. `config`: with the change.
std::string StateMoveText(const config::Config& config, const StateMoveNeed& need,
                          const Question& question);

// Its parts: what is live at the peak, and what to do.
std::string PeakText(const Footprint& footprint);
std::string AdviceText(const Advice& advice, int64_t limit_bytes);

}  // namespace shardscope::footprint
