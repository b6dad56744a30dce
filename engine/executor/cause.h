// Why an op could not start earlier: what was done last before it became ready.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/executor/step_plan.h"

namespace shardscope::executor {

// A wait of the host that really blocked it.
struct HostWait {
  plan::OpIndex op = plan::kNone;
  int64_t end_ns = 0;
};

// Note: the cause of a stall
// Ready is the later of the issue and the last end among the ops waited for. If one of these ended
// after the issue, it is the cause. Otherwise the host may be: if it was blocked by a host
// dependency beyond the moment at which the others were done, the issue itself came late, also for
// ops issued in the same burst after the one that carries the dependency. A wait for a compute slot
// is the cause if it was longer than the wait for ops.
//
// Fills ready and blocking of `times` from its issue and slot wait. `host_wait`: the last one
// before the issue. `ended_ns(op)`: the end of an op that is waited for.
template <typename EndedNs>
void FindCause(const std::vector<Wait>& waits, const HostWait& host_wait, int64_t step_start_ns,
               const EndedNs& ended_ns, OpTimes* times) {
  int64_t last_end_ns = step_start_ns;
  for (const Wait& wait : waits) {
    const int64_t end_ns = ended_ns(wait.op);
    if (end_ns < last_end_ns) continue;
    last_end_ns = end_ns;
    if (end_ns <= times->issued_ns) continue;
    times->blocking_op = wait.op;
    times->blocking_kind = wait.kind;
  }
  times->ready_ns = std::max(times->issued_ns, last_end_ns);
  int64_t waited_ns = times->ready_ns - times->issued_ns;
  if (times->blocking_kind == BlockingKind::kNone && host_wait.end_ns > last_end_ns) {
    times->blocking_op = host_wait.op;
    times->blocking_kind = BlockingKind::kHost;
    waited_ns = times->issued_ns - last_end_ns;
  }
  if (times->slot_wait_ns > waited_ns) times->blocking_kind = BlockingKind::kSlot;
}

}  // namespace shardscope::executor
