// The sizes that follow from a unit's shapes, computed once more.
#pragma once

#include <vector>

#include "engine/plan/schedule.h"
#include "tests/oracle/finding.h"

namespace shardscope::oracle {

// Payload, wire bytes and buffers of collectives, and all buffers that hold a unit's elements.
std::vector<Finding> CheckBytes(const plan::Schedule& schedule);

}  // namespace shardscope::oracle
