// What the kernels of LibTorch that a training on a GPU uses cannot do, said before it starts.
#pragma once

#include "engine/config/config.h"
#include "trace/base/status.h"

namespace shardscope::cuda {

// `config` passed Check(). Error: names the keys and what would do.
Status CheckDeviceLimits(const config::Config& config);

}  // namespace shardscope::cuda
