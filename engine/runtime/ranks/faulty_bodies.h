// FaultyBodies: a rank with the fault that the key debug.fault asks for, so that everything above
// meets it as it would meet a real one.
#pragma once

#include "engine/config/config.h"
#include "engine/executor/op_bodies.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Whether a program of `schedule` has the op that `fault` names.
Status CheckFault(const config::Fault& fault, const plan::Schedule& schedule);

class FaultyBodies : public executor::OpBodies {
 public:
  // `bodies` does all other ops; it outlives this.
  FaultyBodies(config::Fault fault, executor::OpBodies* bodies)
      : fault_(std::move(fault)), bodies_(bodies) {}

  int64_t Allocate(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Allocate(context, buffer);
  }
  // At the fault's op throws, never returns, or ends the process.
  void Run(const executor::OpContext& context) override;
  int64_t Free(const executor::OpContext& context, plan::BufferId buffer) override {
    return bodies_->Free(context, buffer);
  }

 private:
  const config::Fault fault_;
  executor::OpBodies* const bodies_;
};

}  // namespace shardscope::runtime
