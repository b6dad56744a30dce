// Gradient norm, clipping and the optimizer on a device, without the host waiting for any of them:
// what DeviceUpdate describes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "engine/model/training_settings.h"
#include "engine/runtime/units/sharded_unit.h"

namespace shardscope::cuda {

// Sum of squares of all gradients' slices, one fp64 on `device`, where they lie; 0 if nothing of
// the units is trained.
at::Tensor GradientSquares(std::span<const runtime::ShardedUnit> units, at::Device device);

// What one update needs; tensors of one element.
struct DeviceUpdate {
  at::Tensor squares;  // of the whole gradient, fp64, with the loss scale in it
  double clip = 0;
  double loss_scale = 1;
  runtime::UpdateArgs args;  // without the gradient's factor
};

// What the kernels of all units of a step take, made once on their stream.
struct UpdateScalars {
  at::Tensor norm;                    // of the gradient without the loss scale, fp64
  std::optional<at::Tensor> divisor;  // of gradients: loss scale / model::ClipScale()
  at::Tensor found_inf;
  at::Tensor count;  // of this update, from 1
};
UpdateScalars ScalarsOf(const DeviceUpdate& update);

// LibTorch's fused AdamW, Adam or SGD, with the clipping in it. A gradient that is not finite
// changes nothing: that is found when the host reads the norm. `unit`'s gradient is overwritten by
// its clipped self. State in blocks is not for devices (footprint::CheckDeviceLimits()).
void UpdateFused(const runtime::UpdateArgs& args, const UpdateScalars& scalars,
                 runtime::ShardedUnit* unit);

}  // namespace shardscope::cuda
