// What a builder needs of a model: its segments, units and parameter shapes. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/op.h"

namespace shardscope::plan {

struct Parameter {
  std::string name;            // "block3.attention.qkv.weight"
  std::vector<int64_t> shape;  // of one rank of mesh.tensor; sharded on dimension 0
  // Split among these ranks (Megatron-LM, arXiv 1909.08053, section 3), rows in so many parts of
  // which each is: queries, keys and values.
  TensorSplit split = TensorSplit::kWhole;
  int32_t row_parts = 1;
  // Not trained: it has no gradient and no optimizer state. In a unit such parameters come last.
  bool is_frozen = false;
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
  bool is_split = false;         // ranks of mesh.tensor share its work, and add up its output
  // Above 0: these ranks have parts of the sequence outside of it, its output too. What its norm
  // leaves for its backward, of the whole sequence, as in all that is no output.
  int64_t norm_bytes = 0;
  // Of a split one: what the weight behind its norm puts out on a rank.
  int64_t hidden_bytes = 0;
  // Of its units: in which it has parameters, and all of them are frozen; ascending.
  std::vector<int32_t> frozen_units;
  bool operator==(const Segment&) const = default;
};

// Parameters gathered and freed, or reduced, together.
struct Unit {
  std::string name;      // "root", "embedding", "block3", "head", "bucket0"
  bool is_root = false;  // never freed after forward: gathered once a micro-batch
  std::vector<Parameter> parameters;
  bool operator==(const Unit&) const = default;
};

// What activation checkpointing needs of a segment.
struct Recomputable {
  int32_t block = kNone;  // of which it is a part; kNone: its forward keeps all
  // Of its activation, beside the output: what matrix products and attention have put out. The rest
  // is cheap to make of that and of the segment's input.
  int64_t product_bytes = 0;
  bool operator==(const Recomputable&) const = default;
};

struct ModelDescription {
  std::vector<Segment> segments;           // in forward order
  std::vector<Recomputable> recomputable;  // by segment; or empty: none is
  std::vector<Unit> units;                 // in order of first use in forward
  int64_t batch_bytes = 0;                 // token ids of one micro-batch
  // Ranks of mesh.tensor have parts of the gradients of parameters that each has whole: adapters.
  // Where they share the sequence outside of layers, they do anyway.
  bool has_partial_gradients = false;
};

// Which parameters are a unit. By default that is `blocks` transformer blocks; embedding and head
// are units of their own, or together a root unit that is never freed after forward. Otherwise
// modules are chosen, and what is in none of them is the root's.
struct UnitPolicy {
  int64_t blocks = 1;
  bool root = false;
  bool modules = false;  // attention and MLP apart
  // Above 0: modules with so many elements, not counting those of modules inside that have as many
  // (PyTorch: size_based_auto_wrap_policy).
  int64_t least_elements = 0;
  std::vector<std::string> names;  // "block3", "block3.mlp", "head"
  // Above 0: units are buckets instead, filled in the order in which gradients arrive; a bucket is
  // full once it has so many bytes, the first one sooner (PyTorch's DDP after its first step:
  // reducer.cpp, compute_bucket_assignment_by_size).
  int64_t bucket_bytes = 0;
  int64_t first_bucket_bytes = int64_t{1} << 20;
  // Of a pipeline: blocks are spread over them evenly, and no unit is in two of them.
  int32_t stages = 1;
  // Ranks that share the work of attention and MLP: parameters are those of one of them.
  int32_t tensor_ranks = 1;
  // Each of them has a part of the sequence, where they do not share work (Megatron-LM's sequence
  // parallelism, arXiv 2205.05198).
  bool sequence_parallel = false;
  // Parameters with fewer elements are a unit of their own, of which every rank keeps all
  // (DeepSpeed: stage3_param_persistence_threshold).
  int64_t persistence_threshold = 0;
  bool operator==(const UnitPolicy&) const = default;
};

// 1 without a pipeline.
int32_t NumStages(const std::vector<Segment>& segments);

// Whether ranks of mesh.tensor have parts of the sequence.
bool IsSequenceParallel(const std::vector<Segment>& segments);

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

// Those of parameters that are whole on every rank of mesh.tensor.
int64_t WholeShardElements(const Unit& unit, int num_ranks);

// Elements of the unit's parameters without padding.
int64_t UnitElements(const Unit& unit);

// The unit's parameters that are trained, which come first. What is a gradient or optimizer state
// has these only, where they have the same places as among all.
Unit TrainedPart(const Unit& unit);
bool IsTrained(const Unit& unit);  // any
inline bool HoldsTrainedPart(BufferKind kind) { return TraitsOf(kind).trained_only; }

// The first segment that has a backward: those before it have frozen parameters only, and nothing
// needs the gradient of what they put out. 0 where nothing is frozen.
int32_t FirstTrainedSegment(const std::vector<Segment>& segments);

// The parameter of one of `tensor_ranks`, if it is split, as it is on all of them together.
Parameter WholeOf(Parameter parameter, int tensor_ranks);

// Elements that lie together both on rank `place` of `tensor_ranks` and in the whole parameter, as
// offsets there; ascending, without gaps on the rank.
struct TensorRun {
  int64_t first = 0;           // on the rank
  int64_t first_in_whole = 0;  // in the whole parameter
  int64_t count = 0;
};
std::vector<TensorRun> TensorRuns(const Parameter& parameter, int tensor_ranks, int place);

}  // namespace shardscope::plan
