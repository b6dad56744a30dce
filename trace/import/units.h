// Units of FSDP and ZeRO-3 where no range names them.
#pragma once

#include <vector>

#include "trace/import/pieces.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

// Gives pieces their unit and phase by the collectives of the group that shards parameters: a step
// gathers unit after unit in forward, perhaps again from the last to the first in backward, and
// reduces the gradients of each once, from the last to the first (torch/distributed/fsdp). Compute
// of forward belongs to the unit whose gather it waited for last: by event waits of its stream,
// else by copies out of what was gathered, else by the order of issue; compute of backward to the
// unit that is reduced next. Nothing where ranges name units, or where a step does not look like
// that. Units are called "unit 0", "unit 1", ... in the order of forward.
void InferUnits(Recording* recording, std::vector<Piece>* pieces);

}  // namespace shardscope::imports
