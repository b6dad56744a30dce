// Apart from schedule_test_util.h: tests of other folders have their own short names for what that
// declares.
#pragma once

#include <string_view>

#include "engine/plan/policy.h"

namespace shardscope::plan {

// The strategy, and what it does with units after their forward, as the key `strategy` alone means.
inline void SetStrategy(const Strategy& strategy, Policy* policy) {
  policy->strategy = &strategy;
  policy->reshard_after_forward = strategy.reshards_after_forward;
}
inline void SetStrategy(std::string_view name, Policy* policy) {
  SetStrategy(*FindStrategy(name), policy);
}

}  // namespace shardscope::plan
