// Validator: proves that a Schedule cannot read what is not there, leak, deadlock or mismatch
// collectives.
#pragma once

#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::plan {

// Checks, for every rank: each read happens after its write and before its free (happens-before
// over host order, streams, communicators and dependencies), no write or free races with a use,
// every allocation is freed once and every free has an allocation, persistent buffers are neither;
// collectives of a communicator agree in order, kind, unit, bytes and dtype on all ranks; nothing
// deadlocks (host waits included). The error names op and buffer and prints the grid around the
// failing op.
Status Validate(const Schedule& schedule);

}  // namespace shardscope::plan
