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
  // Which hold its parameters, ascending. One, unless units are buckets.
  std::vector<int32_t> units;
  int64_t activation_bytes = 0;  // estimate, per micro-batch: saved tensors and output
  int64_t output_bytes = 0;      // per micro-batch
  int32_t stage = 0;             // of a pipeline, in forward order
  bool operator==(const Segment&) const = default;
};

// Parameters gathered and freed, or reduced, together.
struct Unit {
  std::string name;      // "root", "embedding", "block3", "head", "bucket0"
  bool is_root = false;  // never freed after forward: gathered once a micro-batch
  std::vector<Parameter> parameters;
  bool operator==(const Unit&) const = default;
};

struct ModelDescription {
  std::vector<Segment> segments;  // in forward order
  std::vector<Unit> units;        // in order of first use in forward
  int64_t batch_bytes = 0;        // token ids of one micro-batch
};

// Which parameters are a unit. By default that is `blocks` transformer blocks; embedding and head
// are units of their own, or together a root unit that is never freed after forward.
struct UnitPolicy {
  int64_t blocks = 1;
  bool root = false;
  // Above 0: units are buckets instead, filled in the order in which gradients arrive; a bucket is
  // full once it has so many bytes, the first one sooner (PyTorch's DDP after its first step:
  // reducer.cpp, compute_bucket_assignment_by_size).
  int64_t bucket_bytes = 0;
  int64_t first_bucket_bytes = int64_t{1} << 20;
  // Of a pipeline: blocks are spread over them evenly, and no unit is in two of them.
  int32_t stages = 1;
  // Parameters with fewer elements are a unit of their own, of which every rank keeps all
  // (DeepSpeed: stage3_param_persistence_threshold).
  int64_t persistence_threshold = 0;
  bool operator==(const UnitPolicy&) const = default;
};

// 1 without a pipeline.
int32_t NumStages(const std::vector<Segment>& segments);

// By unit: the stage whose segments use it.
std::vector<int32_t> StageOfUnits(const std::vector<Segment>& segments, size_t num_units);

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
