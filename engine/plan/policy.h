// Policy: the knobs that shape a Schedule, as plain values (engine/config resolves keys and presets
// to it).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/plan/activation_checkpointing.h"
#include "engine/plan/mesh.h"
#include "engine/plan/model_description.h"
#include "engine/plan/op.h"
#include "engine/plan/optimizer_state.h"
#include "engine/plan/strategy.h"
#include "trace/base/status.h"

namespace shardscope::plan {

// Whose waits, copies and free points: PyTorch's, or those of two fixed slots for units.
enum class Preset : uint8_t { kFsdp2, kFsdp1, kDoubleBuffer };
enum class BackwardPrefetch : uint8_t { kPre, kPost, kNone };

// What becomes of the gradients of micro-batches, where units are sharded: each is reduced; they
// stay unsharded and are added up on the rank until the last one, which is reduced (FSDP's
// no_sync(), FSDP2's set_requires_gradient_sync(False)); or each is reduce-scattered, and replicas
// all-reduce the sum of the shards with the last one (FSDP2's set_requires_all_reduce(False)).
enum class GradientSync : uint8_t { kReduce, kNoSync, kReduceScatterOnly };

// In which order a rank runs its stages' micro-batches. One by one: each goes through all stages,
// forward and back, before the next starts.
enum class PipelineSchedule : uint8_t { kOneByOne, kGpipe, k1F1B, kInterleaved };
// How far ZeRO-3 gathers ahead, and what it keeps, in elements (DeepSpeed:
// zero_optimization.stage3_ and these names). Unless otherwise said it gathers each unit when it is
// used, and frees it then.
struct ElementBudgets {
  int64_t prefetch_bucket_size = 0;                                   // gathered, and not used yet
  int64_t max_live_parameters = std::numeric_limits<int64_t>::max();  // of all that is gathered
  int64_t max_reuse_distance = 0;  // used before a unit is used again
  bool operator==(const ElementBudgets&) const = default;
};

// Which units' all-gathers a unit issues after its own, in that order, instead of those of the next
// ones (FSDP2's set_modules_to_forward_prefetch() and set_modules_to_backward_prefetch()).
struct PrefetchList {
  std::string unit;
  std::vector<std::string> gathers;
  bool operator==(const PrefetchList&) const = default;
};
struct PrefetchLists {
  std::vector<PrefetchList> forward;
  std::vector<PrefetchList> backward;
  bool operator==(const PrefetchLists&) const = default;
};

struct Accumulation {
  GradientSync sync = GradientSync::kReduce;
  // Whether units are freed after the backward of a micro-batch before the last one (FSDP2's
  // set_reshard_after_backward()).
  bool reshards = true;
  // Whether compute waits for reductions at the end of every backward, as each is taken for the
  // last one; else of the last one only (FSDP2's set_is_last_backward()).
  bool waits = true;
  // Whether reduced gradients stay in the reduce dtype (FSDP1's keep_low_precision_grads), else
  // they are cast to the master's.
  bool keeps_dtype = false;
  bool operator==(const Accumulation&) const = default;
};

struct Update {
  StateTensors state = DefaultStateTensors();  // what the optimizer keeps
  bool has_scaler = false;  // of the loss: a step whose gradient is not finite is skipped
  // Of gradients that are clipped all have to be there first; else with Offload::kAll the host
  // updates each unit as its gradient comes.
  bool clips = true;
  bool operator==(const Update&) const = default;
};

// What lies in the host's memory. The optimizer updates where its state is, and gradients go there.
enum class Offload : uint8_t {
  kNone,
  // Its state, gradient shards, and the weights that it updates; the rank keeps a copy of these,
  // which it gathers from (DeepSpeed's offload_optimizer: ZeRO-Offload, arXiv 2101.06840).
  kOptimizer,
  // Parameter shards too (FSDP2's CPUOffloadPolicy); of units that ranks keep whole, as the above.
  kAll,
};

struct Policy {
  Preset preset = Preset::kFsdp2;
  const Strategy* strategy = &Strategies().front();
  bool reshard_after_forward = true;  // never for the root unit
  // Above 0: then a unit stays sharded over so many ranks until its backward, which gathers it
  // among them (FSDP2's reshard_after_forward=int). They divide mesh.shard.
  int post_forward_ranks = 0;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  int backward_depth = 1;    // 1-3
  int forward_prefetch = 0;  // 0-3
  PrefetchLists prefetch_lists;
  int prefetch_limit = 0;     // unsharded units in flight; 0 = no limit
  int run_ahead = -1;         // compute ops that the host may issue ahead; -1 = unlimited
  ElementBudgets budgets;     // where the strategy has them, instead of any prefetch above
  bool tensor_async = false;  // weights' gradients are made while tensor ranks add up others
  bool overlap_comm = true;   // ZeRO; false: compute waits for each collective at once
  int num_communicators = 1;  // 1: all-gathers and reductions share one; 2: one each
  Mesh mesh;
  UnitPolicy units;
  PipelineSchedule pipeline = PipelineSchedule::kOneByOne;
  int micro_batches = 1;
  ActivationCheckpointing checkpointing;
  Accumulation accumulation;
  Offload offload = Offload::kNone;
  Update update;
  DType master_dtype = DType::kFp32;  // fp64 when precision.param is fp64
  DType param_dtype = DType::kFp32;
  DType reduce_dtype = DType::kFp32;
  bool operator==(const Policy&) const = default;

  bool updates_on_host() const { return offload != Offload::kNone; }
  // Of gradient shards.
  DType gradient_dtype() const { return accumulation.keeps_dtype ? reduce_dtype : master_dtype; }
};

// Builds the Schedule of one step of a model whose units are made already: the strategy's builder,
// then every pass that the policy asks for, in fixed order (backward prefetch, forward prefetch,
// rate limit, run-ahead), then Validate. One rank still runs collectives (of one).
Result<Schedule> BuildSchedule(const ModelDescription& model, const Policy& policy);

// The same of an evaluation's batch: the forwards of such a step alone (evaluation.h).
Result<Schedule> BuildEvaluation(const ModelDescription& model, const Policy& policy);

}  // namespace shardscope::plan
