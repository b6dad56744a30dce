#include "engine/plan/validate.h"

#include "engine/plan/checks/lifetimes.h"
#include "engine/plan/checks/rendezvous.h"
#include "engine/plan/checks/sizes.h"
#include "engine/plan/checks/structure.h"

namespace shardscope::plan {

std::optional<Refusal> FindRefusal(const Schedule& schedule) {
  for (const auto check : {CheckStructure, CheckSizes, CheckCollectivesMatch, CheckNoDeadlock}) {
    if (std::optional<Refusal> refusal = check(schedule)) return refusal;
  }
  for (const Program& program : schedule.programs) {
    if (std::optional<Refusal> refusal = CheckLifetimes(schedule, program)) return refusal;
  }
  return std::nullopt;
}

Status Validate(const Schedule& schedule) {
  std::optional<Refusal> refusal = FindRefusal(schedule);
  return refusal ? Status::Error(std::move(refusal->message)) : Status::Ok();
}

}  // namespace shardscope::plan
