// Where each parameter of a unit lies in the unit's buffers.
//
// Three forms (R = PaddedRows, N = ranks that share the unit, C = elements of a row):
//   packed shard     R * C elements of every parameter, one after the other
//   rank-major       N packed shards, one after the other: what collectives of one piece move
//   unsharded        every parameter whole, N * R rows of which the last may be padding, each
//                    starting at a multiple of 64 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/plan/model_description.h"
#include "engine/plan/op.h"

namespace shardscope::footprint {

// Blocks, and parameters inside them, start at multiples of this: vector instructions need it, and
// results of the matrix library may depend on it.
inline constexpr size_t kAlignment = 64;

struct ParameterLayout {
  plan::Parameter parameter;
  int64_t rows = 0;          // without padding
  int64_t padded_rows = 0;   // of one rank
  int64_t row_elements = 0;  // C
  int64_t shard_offset = 0;  // in elements, in a packed shard
  int64_t first_block = 0;   // of optimizer state that is kept in blocks

  int64_t shard_elements() const { return padded_rows * row_elements; }
};

class UnitLayout {
 public:
  UnitLayout(const plan::Unit& unit, int num_ranks);

  const std::vector<ParameterLayout>& parameters() const { return parameters_; }
  int num_ranks() const { return num_ranks_; }
  int64_t shard_elements() const { return shard_elements_; }
  // Of plan::TrainedPart(): where gradients and optimizer state lie. Its parameters are the first
  // ones, at the same places in a packed shard and in the unsharded form.
  const UnitLayout& trained() const { return trained_ == nullptr ? *this : *trained_; }
  int64_t shard_blocks() const { return shard_blocks_; }

  // Byte offset of parameter `index` in the unsharded form, and the size of that form.
  int64_t UnshardedOffset(size_t index, int64_t element_bytes) const;
  int64_t UnshardedBytes(int64_t element_bytes) const;

 private:
  int num_ranks_;
  std::vector<ParameterLayout> parameters_;
  std::shared_ptr<const UnitLayout> trained_;  // null: it is all of the unit
  int64_t shard_elements_ = 0;
  int64_t shard_blocks_ = 0;
};

// What lies beside a transient buffer in plain memory so that each parameter in it is aligned; the
// Schedule's figure is without these gaps. `layout`: of the buffer's unit.
int64_t GapBytes(const UnitLayout& layout, const plan::Buffer& buffer);

}  // namespace shardscope::footprint
