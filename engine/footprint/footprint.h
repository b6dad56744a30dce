// What a run takes in memory, from its keys and the Schedule that they give: no rank is made, no
// LibTorch needed. The trainer refuses by it what would not fit, the app plans by it.
#pragma once

#include <cstdint>

#include "engine/config/config.h"
#include "engine/model/model_config.h"
#include "engine/plan/memory.h"
#include "engine/plan/model_description.h"
#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::footprint {

// model.path and lora.path: gives `config` the keys of the model and of the adapters that their
// config.json and adapter_config.json have. Error: one cannot be read or trained, or a key is set
// to something else.
Status ApplyFolders(config::Config* config);

// Error: as ApplyFolders().
Result<model::ModelConfig> ModelConfigOf(const config::Config& config);

// That model in the units that `config` asks for, with a micro-batch of train.batch samples: what a
// Schedule is built of. Errors: also those of model::CheckUnits().
Result<plan::ModelDescription> DescriptionOf(const config::Config& config);

// The copy from which checkpoints are written while steps run: there if checkpoint.every makes
// any, or whatever it says.
enum class CheckpointCopy : uint8_t { kIfWanted, kThere };

struct Footprint {
  plan::Schedule schedule;
  int64_t issued_bytes = 0;  // plan::PredictLargestPeak()
  plan::PeakMoment most;     // of the rank that can hold most, in any order of execution
  bool has_checkpoint_copy = false;

  int64_t needed_bytes() const { return most.total; }  // what engine.memory_limit compares
};

// Whether a run with it keeps such a copy from its first checkpoint on. On a GPU it lies in the
// host's memory.
bool WantsCheckpointCopy(const config::Config& config);

// `config` has passed Check(). `written`: what schedule.file says, where the caller has read it.
// Errors are those of BuildSchedule(), and of a schedule.file that cannot be run.
Result<Footprint> FootprintOf(const config::Config& config,
                              CheckpointCopy copy = CheckpointCopy::kIfWanted,
                              const plan::Schedule* written = nullptr);

// The same of what evaluates between its steps, of which schedule.file says nothing. Errors are
// those of BuildEvaluation().
Result<Footprint> EvaluationFootprintOf(const config::Config& config,
                                        CheckpointCopy copy = CheckpointCopy::kIfWanted);

}  // namespace shardscope::footprint
