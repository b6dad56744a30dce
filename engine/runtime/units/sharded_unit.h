// Where each parameter of a unit lies in the unit's buffers.
//
// Three forms (R = PaddedRows, N = ranks that share the unit, C = elements of a row):
//   packed shard     R * C elements of every parameter, one after the other
//   rank-major       N packed shards, one after the other: what collectives of one piece move
//   unsharded        every parameter whole, N * R rows of which the last may be padding, each
//                    starting at a multiple of 64 bytes
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/training_settings.h"
#include "engine/plan/model_description.h"
#include "engine/runtime/units/adamw.h"

namespace shardscope::runtime {

struct ParameterLayout {
  plan::Parameter parameter;
  int64_t rows = 0;          // without padding
  int64_t padded_rows = 0;   // of one rank
  int64_t row_elements = 0;  // C
  int64_t shard_offset = 0;  // in elements, in a packed shard

  int64_t shard_elements() const { return padded_rows * row_elements; }
};

class UnitLayout {
 public:
  UnitLayout(const plan::Unit& unit, int num_ranks);

  const std::vector<ParameterLayout>& parameters() const { return parameters_; }
  int num_ranks() const { return num_ranks_; }
  int64_t shard_elements() const { return shard_elements_; }

  // Byte offset of parameter `index` in the unsharded form, and the size of that form.
  int64_t UnshardedOffset(size_t index, int64_t element_bytes) const;
  int64_t UnshardedBytes(int64_t element_bytes) const;

 private:
  int num_ranks_;
  std::vector<ParameterLayout> parameters_;
  int64_t shard_elements_ = 0;
};

// What lies beside a transient buffer in plain memory so that each parameter in it is aligned; the
// Schedule's figure is without these gaps. `layout`: of the buffer's unit.
int64_t GapBytes(const UnitLayout& layout, const plan::Buffer& buffer);

// What a rank keeps of one unit for the whole run: its slice of the parameters in the
// master dtype, of the gradient, and AdamW's two moments. All in packed-shard form;
// padding is zero and stays zero.
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
