// What the kernels of LibTorch that a training on a GPU uses cannot do, said before it starts.
#pragma once

#include <cstdint>

#include "engine/config/config.h"
#include "trace/base/status.h"

namespace shardscope::footprint {

// Channels of a head are a multiple of this, for both fused attentions.
inline constexpr int64_t kChannelStep = 8;

// `config` passed Check(). Error: names the keys and what would do; also that of ModelConfigOf().
// Ok without run.device=cuda.
Status CheckDeviceLimits(const config::Config& config);

}  // namespace shardscope::footprint
