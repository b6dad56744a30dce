// What a builder needs to know of a model: its segments, units and parameter shapes. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/op.h"

namespace shardscope::plan {

struct Parameter {
  std::string name;            // "block3.attention.qkv.weight"
  std::vector<int64_t> shape;  // sharded on dimension 0
  bool operator==(const Parameter&) const = default;
};

// A piece of the model with one forward and one backward.
struct Segment {
  std::string name;  // "embedding", "block3.attention", "block3.mlp", "head"
  int32_t unit = kNone;
  int64_t activation_bytes = 0;  // estimate, per micro-batch: saved tensors and output
  int64_t output_bytes = 0;      // per micro-batch
  bool operator==(const Segment&) const = default;
};

// Parameters gathered and freed together.
struct Unit {
  std::string name;      // "root", "embedding", "block3", "head"
  bool is_root = false;  // never freed after forward: gathered once a micro-batch
  std::vector<Parameter> parameters;
  bool operator==(const Unit&) const = default;
};

struct ModelDescription {
  std::vector<Segment> segments;  // in forward order
  std::vector<Unit> units;        // in order of first use in forward
  int64_t batch_bytes = 0;        // token ids of one micro-batch
};

// Number of elements of `shape`.
int64_t NumElements(const std::vector<int64_t>& shape);

// Rows of dimension 0 that every rank stores, padding included: ceil(shape[0] / num_ranks) (FSDP2's
// per-parameter sharding, _fsdp_param.py).
int64_t PaddedRows(const Parameter& parameter, int num_ranks);

// Rows of dimension 0 that `rank` really owns: the last ranks may own fewer, or none.
int64_t OwnedRows(const Parameter& parameter, int num_ranks, int rank);

// Elements of the unit's padded shard: what each rank sends to an all-gather.
int64_t PaddedShardElements(const Unit& unit, int num_ranks);

// Elements of the unit's parameters without padding.
int64_t UnitElements(const Unit& unit);

}  // namespace shardscope::plan
