// Strategy: a way of parallel training, what the key `strategy` chooses from.
#pragma once

#include <span>
#include <string_view>

#include "engine/plan/mesh.h"

namespace shardscope::plan {

struct ModelDescription;
struct Policy;
struct Schedule;

// One row of strategy_list.inc, which is the only list of them.
struct Strategy {
  std::string_view name;    // value of the key, and part of a Schedule's name
  std::string_view shards;  // what is sharded, in words
  // The step before any pass: it has no prefetch but that of budgets. `policy` is checked.
  Schedule (*build)(const ModelDescription& model, const Policy& policy) = nullptr;
  // Along which ranks may lie. With shards and replicas the groups of mesh.replicate reduce the
  // shards of gradients; of none there is one rank only.
  MeshDimensions dimensions = Only(MeshDimension::kShard);
  // What each rank keeps a slice of between steps. All of it where this is false.
  bool shards_parameters = true;
  bool shards_gradients = true;
  bool shards_optimizer = true;
  // Units are what the wrap policy says; else buckets, which say when gradients are reduced.
  bool wraps = true;
  // `preset` says whose waits, copies and free points it has.
  bool has_presets = true;
  // Units are freed after their forward, unless reshard_after_forward says otherwise.
  bool reshards_after_forward = false;
  // In a pipeline, a rank starts the next micro-batch before the last one has come back, as
  // pipeline.schedule says.
  bool overlaps_stages = true;
  // Rank 0 alone keeps the model between steps, and updates it.
  bool is_rooted = false;
  // Policy::budgets say what is gathered ahead and what is kept, not the passes of prefetch.
  bool has_element_budgets = false;
  // Where memory is short, advice tries these in this order: each keeps no more between steps than
  // the one before. 0: it is not advised.
  int advice_order = 0;

  // All ranks along one of its dimensions: those that share, or replicas, if there are any.
  Mesh MeshOf(int num_ranks) const;
  bool Uses(MeshDimension dimension) const { return (dimensions & Only(dimension)) != 0; }
  // Units are gathered and reduced as those of FSDP1 and FSDP2 are, which micro-batches may share.
  constexpr bool shards_as_fsdp() const { return has_presets && shards_parameters; }
  bool replicates_shards() const {
    return Uses(MeshDimension::kShard) && Uses(MeshDimension::kReplicate);
  }
};

// All of them, the default first. Entries live as long as the program: compare their addresses.
std::span<const Strategy> Strategies();

// null: there is none of that name.
const Strategy* FindStrategy(std::string_view name);

// The one that shards as `strategy` but does, or does not, free units after their forward; itself
// if there is none.
const Strategy& VariantThat(bool reshards_after_forward, const Strategy& strategy);

}  // namespace shardscope::plan
