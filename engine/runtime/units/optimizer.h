// Updates of AdamW, Adam and SGD on raw memory, in one pass over it: loops that the compiler
// vectorises, so they stand apart from LibTorch's headers and flags. T is float or double.
#pragma once

#include <array>
#include <cstdint>

#include "engine/model/training_settings.h"
#include "engine/plan/op.h"

namespace shardscope::runtime {

// One update.
struct UpdateArgs {
  model::OptimizerSettings optimizer;
  double learning_rate = 0;
  double gradient_scale = 1;  // clipping, and 1 / the loss scale
  int64_t step = 0;           // updates before this one
};

// A tensor of the optimizer's state.
struct StateMemory {
  void* values = nullptr;   // T; of blocks their codes
  float* scales = nullptr;  // of blocks (state_blocks.h): one each; else null
};

// Of elements that lie together. Blocks start with the first of them.
template <typename T>
struct UpdateMemory {
  T* parameters = nullptr;
  const void* gradient = nullptr;
  plan::DType gradient_dtype = plan::DType::kFp32;
  std::array<StateMemory, 2> state;  // as plan::StateTensorsOf(): those that there are
  int64_t elements = 0;
};

// Elements whose parameter, gradient and state are zero (padding) stay zero.
template <typename T>
void Update(const UpdateMemory<T>& memory, const UpdateArgs& args);

}  // namespace shardscope::runtime
