// The part of an error message that shows where in the schedule it is.
#pragma once

#include <string>

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {

// A refusal of op `index` of `program`, which is one of the schedule's. Its message: "op 17 'B m0
// block3 all_gather' " + `what`, then the ops around it as a grid (streams as columns, ops in host
// order as rows, the failing one marked).
Refusal RefusalAt(const Schedule& schedule, const Program& program, RefusalKind kind, OpIndex index,
                  const std::string& what);

}  // namespace shardscope::plan
