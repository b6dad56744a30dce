// Text form of a Schedule: one op a line, exact round trip, stored in every trace.
#pragma once

#include <string>
#include <string_view>

#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::plan {

// ParseSchedule(PrintSchedule(s)) == s.
std::string PrintSchedule(const Schedule& schedule);

// Errors name the line and what was expected there.
Result<Schedule> ParseSchedule(std::string_view text);

}  // namespace shardscope::plan
