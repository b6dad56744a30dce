// Which choices of a Policy exclude one another: BuildSchedule refuses what these name, and
// engine/config asks them first, to say it in words of keys and with a remedy.
#pragma once

#include <cstdint>

#include "engine/plan/policy.h"

namespace shardscope::plan {

// What the choice does not go with.
enum class Conflict : uint8_t {
  kNone,
  kStrategy,         // which has not what the choice is about
  kWholeParameters,  // of a strategy whose ranks keep all of them
  kPreset,
  kStages,  // of a pipeline
  kRanks,   // their number
  kOffload,
};

// Of Policy::offload.
Conflict ConflictOfOffload(const Policy& policy);

// Of Preset::kDoubleBuffer: units take turns, and each is freed after its forward.
Conflict ConflictOfSlots(const Policy& policy);

// Of units that stay sharded over `ranks` (not 0) ranks after their forward (PyTorch's
// _fsdp_init.py: _get_post_forward_mesh_info). All that share a unit are a number that goes.
Conflict ConflictOfPostForwardRanks(const Policy& policy, int ranks);

// Of GradientSync::kReduceScatterOnly, where it is chosen: there have to be replicas that wait.
Conflict ConflictOfReduceScatterOnly(const Policy& policy);

// Of gradients that stay in the reduce dtype: the host has them in that of the weights that it
// updates (FSDP1's offload too: _cpu_grad is like the shard).
Conflict ConflictOfAccumulation(const Policy& policy);

// Of Update::has_scaler: all ranks have to see gradients.
Conflict ConflictOfScaler(const Policy& policy);

}  // namespace shardscope::plan
