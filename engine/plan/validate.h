// Validate(): proves that a Schedule cannot read what is not there, leak, deadlock or mismatch
// collectives.
#pragma once

#include <optional>
#include <string>

#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::plan {

enum class RefusalKind : uint8_t {
  kStructure,  // an index that names nothing, a wait for what is issued later
  kBytes,      // sizes that disagree with shapes, formula or buffers
  kMismatch,   // ranks would meet with different collectives
  kDeadlock,
  kLifetime,  // a buffer that is leaked, freed twice, or used without an allocation
  kOrder,     // two uses of a buffer that nothing orders as they must be
};

// Why a Schedule is refused, and the witness: what to look at to see the harm.
struct Refusal {
  RefusalKind kind = RefusalKind::kStructure;
  int32_t program = kNone;  // index into Schedule::programs
  OpIndex op = kNone;       // kNone: no single op is at fault
  OpIndex other = kNone;    // kOrder: run `op` and this one in the other order, or at once
  BufferId buffer = kNone;
  std::string message;  // names op and buffer, and prints the grid around the op
};

// Checks, for every rank: each read happens after its write and before its free (happens-before
// over host order, streams, communicators and dependencies), no write or free races with a use,
// gradient shards are written before the optimizer reads them and not after that,
// every allocation is freed once and every free has an allocation, persistent buffers are neither;
// collectives of a communicator agree in order, kind, unit, bytes and dtype on all ranks; sizes
// follow from the units' shapes; nothing deadlocks (host waits included).
std::optional<Refusal> FindRefusal(const Schedule& schedule);

// The refusal's message as an error.
Status Validate(const Schedule& schedule);

}  // namespace shardscope::plan
