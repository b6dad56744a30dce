#include "engine/plan/validate.h"

#include "engine/plan/checks/lifetimes.h"
#include "engine/plan/checks/rendezvous.h"
#include "engine/plan/checks/structure.h"

namespace shardscope::plan {

Status Validate(const Schedule& schedule) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckStructure(schedule));
  SHARDSCOPE_RETURN_IF_ERROR(CheckCollectivesMatch(schedule));
  SHARDSCOPE_RETURN_IF_ERROR(CheckNoDeadlock(schedule));
  for (const Program& program : schedule.programs) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckLifetimes(schedule, program));
  }
  return Status::Ok();
}

}  // namespace shardscope::plan
