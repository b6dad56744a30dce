// ShardedUnit: what a rank keeps of one unit for the whole run: its slice of the parameters in the
// master dtype, of the gradient, and AdamW's two moments. All in packed-shard form (unit_layout.h);
// padding is zero and stays zero.
#pragma once

#include <ATen/core/Tensor.h>

#include "engine/model/model_config.h"
#include "engine/model/training_settings.h"
#include "engine/runtime/units/adamw.h"
#include "engine/runtime/units/unit_layout.h"

namespace shardscope::runtime {

class ShardedUnit {
 public:
  // `shard_ranks`: among how many ranks the unit is split (1: this rank holds all of it);
  // `shard_index`: which of them this is.
  struct Place {
    int shard_ranks = 1;
    int shard_index = 0;
  };
  ShardedUnit(const model::ModelConfig& config, const plan::Unit& unit, Place place,
              plan::DType master, uint64_t seed);

  const UnitLayout& layout() const { return layout_; }
  at::Tensor& parameters() { return parameters_; }
  at::Tensor& gradient() { return gradient_; }
  at::Tensor& first_moment() { return first_moment_; }
  at::Tensor& second_moment() { return second_moment_; }
  int64_t shard_bytes() const { return static_cast<int64_t>(parameters_.nbytes()); }

  // Sum of squares of the gradient shard.
  double GradientSquares() const;

  void Update(const UpdateArgs& args);

 private:
  UnitLayout layout_;
  at::Tensor parameters_;
  at::Tensor gradient_;
  at::Tensor first_moment_;
  at::Tensor second_moment_;
};

}  // namespace shardscope::runtime
