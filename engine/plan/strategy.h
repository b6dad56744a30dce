// Strategy: a way of parallel training, what the key `strategy` chooses from.
#pragma once

#include <span>
#include <string_view>

namespace shardscope::plan {

struct ModelDescription;
struct Policy;
struct Schedule;

// One entry of the table in strategies.cc, which is the only list of them.
struct Strategy {
  std::string_view name;    // value of the key, and part of a Schedule's name
  std::string_view shards;  // what is sharded, in words
  // false: every rank holds all parameters, and reduces all gradients.
  bool shards_parameters = true;
  // It shards inside mesh.shard, and the groups of mesh.replicate reduce the shards of gradients.
  bool replicates_shards = false;
  // Units are freed after their forward, unless reshard_after_forward says otherwise.
  bool reshards_after_forward = false;
  // The step before any pass: it has no prefetch. `policy` is checked.
  Schedule (*build)(const ModelDescription& model, const Policy& policy) = nullptr;
};

// All of them, the default first. Entries live as long as the program: compare their addresses.
std::span<const Strategy> Strategies();

// null: there is none of that name.
const Strategy* FindStrategy(std::string_view name);

// The one that shards as `strategy` but does, or does not, free units after their forward.
const Strategy& VariantThat(bool reshards_after_forward, const Strategy& strategy);

}  // namespace shardscope::plan
