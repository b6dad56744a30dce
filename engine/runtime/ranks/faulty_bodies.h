// FaultyBodies: a rank with the faults that the keys fault.* ask for, so that everything above
// meets them as it would meet real ones.
#pragma once

#include <cstdint>

#include "engine/config/faults.h"
#include "engine/executor/op_bodies.h"
#include "engine/runtime/ranks/job.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Whether the rank's program in `schedule` has an op that `fault` can be of.
Status CheckFault(const config::Fault& fault, const plan::Schedule& schedule);

// How much longer an op takes that took `op_ns`.
int64_t DelayNs(const config::Delay& delay, const executor::OpContext& context, int64_t op_ns);
// Uniform from 0 up to what `jitter` says; the same for the same seed, step, rank and op.
int64_t JitterNs(const config::Slowdown& jitter, uint64_t seed, const executor::OpContext& context,
                 int64_t op_ns);

class FaultyBodies : public executor::OpBodies {
 public:
  // `bodies` does all other ops; both outlive this.
  FaultyBodies(const Job* job, executor::OpBodies* bodies) : job_(*job), bodies_(bodies) {}

  // Of the rank's steps from now on. While no step runs.
  void SetLateness(const config::Lateness& lateness) { lateness_ = lateness; }

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Allocate(context, buffer);
  }
  // In place of a fault's op dies, never returns, or does nothing. A compute op that is late takes
  // longer: it keeps its slot meanwhile, and on a GPU only its host waits.
  void Run(const executor::OpContext& context) override;
  // Of the host on a GPU's stream: it is never late.
  std::function<void()> HostWork(const executor::OpContext& context) override {
    return FaultAt(context) == nullptr ? bodies_->HostWork(context) : nullptr;
  }
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Free(context, buffer);
  }

 private:
  // Of the op, or null.
  const config::Fault* FaultAt(const executor::OpContext& context) const;
  void Break(config::FaultKind kind) const;
  void RunLate(const executor::OpContext& context);

  const Job& job_;
  config::Lateness lateness_;
  executor::OpBodies* const bodies_;
};

}  // namespace shardscope::runtime
