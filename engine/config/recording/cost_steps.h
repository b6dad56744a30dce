// CostSteps: the steps by which a run measures what recording costs (record.measure_overhead). In
// rounds of four, so that a machine that slowly gets faster or slower meets both sides alike:
//
//   step        b          b + 1          b + 2      b + 3
//   recorded    yes        no             yes        yes
//   measured    with       without        -          with
//
// The step after the one that is not recorded is not measured: recording is warming up again.
#pragma once

#include <cstdint>

#include "engine/config/config.h"
#include "trace/base/status.h"

namespace shardscope::config {

class CostSteps {
 public:
  enum class Role : uint8_t { kNone, kWith, kWithout };
  struct Place {
    Role role = Role::kNone;
    int64_t round = 0;
  };

  // `config` passed Check(), and its run.device is settled.
  explicit CostSteps(const Config& config);

  Place Of(int64_t step) const;
  bool IsLeftOut(int64_t step) const { return Of(step).role == Role::kWithout; }
  int64_t num_rounds() const { return num_rounds_; }

 private:
  int64_t first_ = 0;
  int64_t stride_ = 1;
  int64_t num_rounds_ = 0;
};

// Error: more rounds are asked for than the recorded steps have room for.
Status CheckCostSteps(const Config& config);

}  // namespace shardscope::config
