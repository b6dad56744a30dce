// Checkpoints: the weights and moments of all ranks before a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/runtime/ranks/ranks.h"

namespace shardscope::runtime {

struct CheckpointOutcome {
  std::string folder;                 // empty: there is none, or this is not rank 0
  std::vector<std::string> messages;  // for the user
};

// Writes step-<step>/rank-<r>-of-<n>.safetensors under `checkpoints`, all of them or none: every
// rank its own rows of parameters and moments, without padding, so that another number of ranks can
// read them. All ranks call it between the same steps, each on its host thread.
CheckpointOutcome WriteCheckpoint(Ranks* ranks, int rank, int64_t step,
                                  const std::string& checkpoints);

}  // namespace shardscope::runtime
