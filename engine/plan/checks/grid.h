// The part of an error message that shows where in the schedule it is.
#pragma once

#include <string>

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// An error about op `index` of `program`: "op 17 'B m0 block3 all_gather' " + `what`, then the ops
// around it as a grid (streams as columns, ops in host order as rows, the failing one marked).
std::string ErrorAt(const Schedule& schedule, const Program& program, OpIndex index,
                    const std::string& what);

}  // namespace shardscope::plan
