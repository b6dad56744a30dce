// What traces need of strategies, which are the engine's: engine/plan/strategies.cc asserts
// that it is so.
#pragma once

#include <string_view>

namespace shardscope {

// Whether units are gathered and reduced as those of FSDP2 are (plan::Strategy::shards_as_fsdp()).
// `name`: value of the key `strategy`.
constexpr bool IsFsdpStrategy(std::string_view name) {
  return name == "full" || name == "grad_op" || name == "hybrid" || name == "hybrid_grad_op";
}

}  // namespace shardscope
