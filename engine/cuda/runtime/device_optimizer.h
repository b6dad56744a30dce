// DeviceOptimizer: gradient norm, clipping and AdamW on a device, without the host waiting for any
// of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "engine/model/training_settings.h"
#include "engine/runtime/units/sharded_unit.h"

namespace shardscope::cuda {

// Sum of squares of all gradients' slices, one fp64 on their device.
at::Tensor GradientSquares(std::span<const runtime::ShardedUnit> units);

// What one update needs; tensors of one element.
struct DeviceUpdate {
  at::Tensor squares;  // of the whole gradient, fp64
  double learning_rate = 0;
  double clip = 0;
  int64_t step = 0;  // from 0
};

// LibTorch's fused AdamW, with the clipping in it. A gradient that is not finite changes nothing:
// the host hears of it when it reads the norm. `unit`'s gradient is overwritten by its clipped
// self.
void UpdateFused(const DeviceUpdate& update, runtime::ShardedUnit* unit);

}  // namespace shardscope::cuda
