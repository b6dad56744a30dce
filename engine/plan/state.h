// What a rank keeps from step to step: the buffers of a Schedule that no op allocates or frees.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"

namespace shardscope::plan {

// Of parameters, and of gradients, where units take fixed memory in turn (Preset::kDoubleBuffer).
inline constexpr int32_t kNumSlots = 2;

// Among how many ranks units are split; 1: every rank has all of them.
int ShardRanks(const Policy& policy);

// Whether ranks keep all of the unit's parameters, though a slice only of its optimizer state.
bool KeepsWhole(const Unit& unit, const Policy& policy);

// Whether the unit's shard lies in the host's memory, from where each gather brings a copy; what
// ranks keep whole stays with them (DeepSpeed's persistent parameters under offload_param).
bool IsBroughtFromHost(const Unit& unit, const Policy& policy);

// Whether units take turns in slots, which ranks keep too.
bool HasSlots(Preset preset, const Strategy& strategy);
inline bool HasSlots(const Policy& policy) { return HasSlots(policy.preset, *policy.strategy); }

// Of the ranks at `place` along mesh.pipeline: of the units of their stages. Per element of the
// model, in fp32 and over N ranks (ZeRO paper, arXiv 1910.02054, section 5): 16 bytes without
// shards, 8 + 8/N with ZeRO-1, 4 + 12/N with ZeRO-2, 16/N where all is sharded. With another
// parameter dtype the masters are apart from the parameters. What is offloaded is in the host's
// memory, all of it.
std::vector<Buffer> StateBuffers(const ModelDescription& model, const Policy& policy,
                                 int32_t place);

// Bytes that a rank does not keep between steps, as not all parameters are trained: of its
// gradients, and of the optimizer's state. Of the rank that spares most.
struct SparedState {
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
};
SparedState SparedByFrozen(const ModelDescription& model, const Policy& policy);

}  // namespace shardscope::plan
