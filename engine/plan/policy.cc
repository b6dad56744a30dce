#include "engine/plan/policy.h"

#include <algorithm>
#include <vector>

#include "engine/plan/conflicts.h"
#include "engine/plan/evaluation.h"
#include "engine/plan/passes.h"
#include "engine/plan/policy_words.h"
#include "engine/plan/state.h"
#include "engine/plan/validate.h"
#include "trace/base/text.h"

namespace shardscope::plan {
namespace {

Status OutOfRange(const std::string& what, int value, int minimum, int maximum) {
  if (value >= minimum && value <= maximum) return Status::Ok();
  return Status::Error(what + " is " + std::to_string(value) + ", must be " +
                       std::to_string(minimum) + " to " + std::to_string(maximum));
}

// Where shards are FSDP's, and memory is not taken in turn.
Status CheckAccumulation(const Policy& policy) {
  if (ConflictOfScaler(policy) != Conflict::kNone) {
    return Status::Error("strategy '" + std::string(policy.strategy->name) +
                         "' has no gradient scaler: only one of its ranks sees the gradients");
  }
  if (policy.update.has_scaler && policy.updates_on_host() && !policy.update.clips) {
    return Status::Error(
        "a gradient scaler says of no unit before all of them whether it is updated, and without "
        "clipping offload updates each as it comes");
  }
  if (policy.accumulation == Accumulation()) return Status::Ok();
  const std::string name(policy.strategy->name);
  if (ConflictOfAccumulation(policy) != Conflict::kNone) {
    return Status::Error(
        "gradients that go to the host's memory are kept there in the dtype of the weights");
  }
  if (!policy.strategy->shards_as_fsdp() || HasSlots(policy)) {
    return Status::Error(
        "gradients and parameters between micro-batches are a choice of FSDP1 and "
        "FSDP2 with shards, not of strategy '" +
        name + "'" + (HasSlots(policy) ? " with preset double_buffer" : ""));
  }
  if (ConflictOfReduceScatterOnly(policy) != Conflict::kNone) {
    return Status::Error("replicas alone can wait for the last micro-batch, and strategy '" + name +
                         "' has none");
  }
  return Status::Ok();
}

Status CheckPostForwardRanks(const Policy& policy) {
  const int32_t ranks = policy.post_forward_ranks;
  if (ranks == 0) return Status::Ok();
  const Conflict conflict = ConflictOfPostForwardRanks(policy, ranks);
  const int32_t shards = policy.mesh.size(MeshDimension::kShard);
  if (ranks < 2 || ranks >= shards || conflict == Conflict::kRanks) {
    return Status::Error("units cannot stay sharded over " + std::to_string(ranks) + " of " +
                         std::to_string(shards) + " ranks after their forward");
  }
  if (conflict == Conflict::kNone) return Status::Ok();
  return Status::Error(
      "only preset fsdp2, without stages, has units that stay sharded over fewer "
      "ranks after their forward");
}

Status CheckPolicy(const Policy& policy) {
  constexpr int kMany = 1 << 20;
  constexpr int kManyOfOne = 1 << 7;  // four of them multiply to an int
  for (size_t dimension = 0; dimension < kNumMeshDimensions; ++dimension) {
    const std::string name = "mesh." + std::string(Name(static_cast<MeshDimension>(dimension)));
    SHARDSCOPE_RETURN_IF_ERROR(OutOfRange(name, policy.mesh.sizes[dimension], 1, kManyOfOne));
  }
  SHARDSCOPE_RETURN_IF_ERROR(OutOfRange("number of ranks", policy.mesh.num_ranks(), 1, kMany));
  const Strategy& strategy = *policy.strategy;
  if (policy.mesh.SizeOf(strategy.dimensions) != policy.mesh.num_ranks()) {
    const std::string dimensions =
        strategy.dimensions == 0 ? "one rank" : Print(strategy.dimensions);
    return Status::Error("strategy " + std::string(strategy.name) + " has no mesh but " +
                         dimensions + ": all other dimensions are 1");
  }
  const bool needs_tensor = policy.units.sequence_parallel || policy.tensor_async;
  if (needs_tensor && policy.mesh.size(MeshDimension::kTensor) == 1) {
    return Status::Error("sequence parallelism and async need ranks along mesh.tensor");
  }
  SHARDSCOPE_RETURN_IF_ERROR(OutOfRange("number of micro-batches", policy.micro_batches, 1, kMany));
  SHARDSCOPE_RETURN_IF_ERROR(OutOfRange("backward prefetch depth", policy.backward_depth, 1, 3));
  SHARDSCOPE_RETURN_IF_ERROR(OutOfRange("forward prefetch", policy.forward_prefetch, 0, 3));
  SHARDSCOPE_RETURN_IF_ERROR(OutOfRange("number of communicators", policy.num_communicators, 1, 2));
  SHARDSCOPE_RETURN_IF_ERROR(OutOfRange("prefetch limit", policy.prefetch_limit, 0, kMany));
  SHARDSCOPE_RETURN_IF_ERROR(CheckPostForwardRanks(policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckAccumulation(policy));
  return OutOfRange("host run-ahead", policy.run_ahead, -1, kMany);
}

Status CheckUnit(const Unit& unit) {
  if (unit.parameters.empty()) {
    return Status::Error("unit '" + unit.name + "' has no parameters: leave it out of the model");
  }
  for (const Parameter& parameter : unit.parameters) {
    for (const int64_t size : parameter.shape) {
      if (size < 1) {
        return Status::Error("parameter '" + parameter.name + "' has a dimension of size " +
                             std::to_string(size));
      }
    }
  }
  return Status::Ok();
}

// Segments whose work is shared say what their norms leave exactly where the sequence is shared.
Status CheckSequence(const ModelDescription& model, const Policy& policy) {
  if (std::ranges::none_of(model.units, IsTrained)) {
    return Status::Error("all parameters are frozen: leave some to train");
  }
  for (const Segment& segment : model.segments) {
    const bool has_norm = segment.norm_bytes > 0;
    if (has_norm == (segment.is_split && policy.units.sequence_parallel)) continue;
    return Status::Error("segment '" + segment.name + "' " + (has_norm ? "has" : "lacks") +
                         " the bytes of its norm, which go with sequence parallelism");
  }
  return Status::Ok();
}

// Each stage has a unit, and each unit one stage.
Status CheckStages(const ModelDescription& model, const Policy& policy) {
  const int32_t stages = NumStages(model.segments);
  const int32_t ranks = policy.mesh.size(MeshDimension::kPipeline);
  if (stages % ranks != 0 || (ranks == 1 && stages > 1)) {
    return Status::Error("the model has " + std::to_string(stages) + " stages, which " +
                         std::to_string(ranks) + " ranks in a row cannot share evenly");
  }
  std::vector<int32_t> stage_of_unit(model.units.size(), kNone);
  std::vector<bool> has_unit(static_cast<size_t>(stages));
  for (const Segment& segment : model.segments) {
    for (const int32_t unit : segment.units) {
      int32_t& stage = stage_of_unit[static_cast<size_t>(unit)];
      if (stage != kNone && stage != segment.stage) {
        return Status::Error("unit '" + model.units[static_cast<size_t>(unit)].name +
                             "' is in two stages of the pipeline: make units smaller");
      }
      stage = segment.stage;
      has_unit[static_cast<size_t>(stage)] = true;
    }
  }
  const auto empty = std::ranges::find(has_unit, false);
  if (empty == has_unit.end()) return Status::Ok();
  return Status::Error("stage " + std::to_string(empty - has_unit.begin()) +
                       " of the pipeline has no parameters: use fewer stages");
}

Status CheckModel(const ModelDescription& model) {
  if (model.segments.empty()) return Status::Error("the model has no segments");
  if (model.units.empty()) return Status::Error("the model has no units");
  std::vector<bool> used(model.units.size());
  for (const Segment& segment : model.segments) {
    for (const int32_t unit : segment.units) {
      if (unit < 0 || static_cast<size_t>(unit) >= model.units.size()) {
        return Status::Error("segment '" + segment.name + "' names unit " + std::to_string(unit) +
                             ", but the model has " + std::to_string(model.units.size()) +
                             " units");
      }
      used[static_cast<size_t>(unit)] = true;
    }
  }
  for (size_t index = 0; index < used.size(); ++index) {
    if (!used[index]) {
      return Status::Error("unit '" + model.units[index].name + "' is used by no segment");
    }
    SHARDSCOPE_RETURN_IF_ERROR(CheckUnit(model.units[index]));
  }
  return Status::Ok();
}

// Units take turns: each is over before the next but one begins.
Status CheckSlots(const ModelDescription& model, const Policy& policy) {
  if (!HasSlots(policy)) return Status::Ok();
  if (ConflictOfSlots(policy) != Conflict::kNone) {
    return Status::Error(
        "preset double_buffer frees each unit after its forward and has no "
        "stages: use preset fsdp2");
  }
  int32_t last = kNone;
  for (const Segment& segment : model.segments) {
    for (const int32_t unit : segment.units) {
      if (unit != last && unit != last + 1) {
        return Status::Error("preset double_buffer has units that follow one another, but '" +
                             model.units[static_cast<size_t>(unit)].name +
                             "' is used before and after others: make no root unit of it");
      }
      last = unit;
    }
    if (segment.units.size() <= 1) continue;
    return Status::Error("preset double_buffer has one unit at a time, but segment '" +
                         segment.name + "' needs two");
  }
  return Status::Ok();
}

// The units of lists are there.
Status CheckPrefetchLists(const ModelDescription& model, const Policy& policy) {
  std::vector<std::string> named;
  for (const auto* lists : {&policy.prefetch_lists.forward, &policy.prefetch_lists.backward}) {
    for (const PrefetchList& list : *lists) {
      named.push_back(list.unit);
      named.insert(named.end(), list.gathers.begin(), list.gathers.end());
    }
  }
  std::vector<std::string> units;
  for (const Unit& unit : model.units) units.push_back(unit.name);
  for (const std::string& name : named) {
    if (std::ranges::count(units, name) > 0) continue;
    return Status::Error("a list of prefetches names '" + name + "', but the units are " +
                         Join(units, ", "));
  }
  return Status::Ok();
}

// " 1f1b", " interleaved2".
std::string PipelineName(const Policy& policy) {
  const int32_t ranks = policy.mesh.size(MeshDimension::kPipeline);
  if (ranks == 1 || !policy.strategy->overlaps_stages) return "";
  const std::string_view word = WordOf(kPipelineScheduleWords, policy.pipeline);
  if (word.empty()) return "";
  std::string name = " " + std::string(word);
  if (policy.pipeline == PipelineSchedule::kInterleaved) {
    name += std::to_string(policy.units.stages / ranks);
  }
  return name;
}

std::string TensorName(const Policy& policy) {
  const std::string sequence = policy.units.sequence_parallel ? " sequence" : "";
  return sequence + (policy.tensor_async ? " async" : "");
}

std::string OffloadName(const Policy& policy) {
  if (policy.offload == Offload::kNone) return "";
  if (policy.offload == Offload::kOptimizer) return " offload optimizer";
  return policy.update.clips ? " offload" : " offload early";
}

Status CheckOffload(const Policy& policy) {
  if (ConflictOfOffload(policy) == Conflict::kNone) return Status::Ok();
  if (policy.offload == Offload::kOptimizer) {
    return Status::Error(
        "only strategies that shard optimizer state, without preset double_buffer, have it in the "
        "host's memory");
  }
  return Status::Error(
      "only strategies that shard parameters, without preset double_buffer, have shards in the "
      "host's memory");
}

// What is recomputed lies in one unit, which has its slot for that long.
Status CheckRecomputed(const ModelDescription& model, const Policy& policy) {
  if (!model.recomputable.empty() && model.recomputable.size() != model.segments.size()) {
    return Status::Error("the model does not say of each segment whether it can be recomputed");
  }
  const ActivationCheckpointing& checkpointing = policy.checkpointing;
  if (checkpointing.mode == Checkpointing::kEvery && checkpointing.every < 1) {
    return Status::Error("activation checkpointing of every " +
                         std::to_string(checkpointing.every) + "-th block is none");
  }
  if (!HasSlots(policy)) return Status::Ok();
  const std::vector<Keeps> keeps = WhatForwardKeeps(model, checkpointing);
  for (int32_t segment = 0; segment + 1 < std::ssize(model.segments); ++segment) {
    const auto at = static_cast<size_t>(segment);
    if (!GoOnTogether(model, keeps, segment) ||
        model.segments[at].units == model.segments[at + 1].units) {
      continue;
    }
    return Status::Error("preset double_buffer has one unit at a time, but segments '" +
                         model.segments[at].name + "' and '" + model.segments[at + 1].name +
                         "' of two are recomputed together");
  }
  return Status::Ok();
}

std::string ScheduleName(const Policy& policy) {
  const Strategy& strategy = *policy.strategy;
  if (!strategy.has_presets) {
    return std::string(strategy.name) + (policy.overlap_comm ? "" : " serial") +
           PipelineName(policy) + TensorName(policy);
  }
  if (HasSlots(policy)) {
    return std::string(WordOf(kPresetWords, policy.preset)) + " " + std::string(strategy.name) +
           PipelineName(policy) + TensorName(policy);
  }
  // A preset with slots, without anything to take turns in them, is built as FSDP2.
  const bool is_fsdp1 = policy.preset == Preset::kFsdp1;
  std::string name(WordOf(kPresetWords, is_fsdp1 ? Preset::kFsdp1 : Preset::kFsdp2));
  if (!strategy.shards_parameters) return name.append(" ").append(strategy.name);
  const bool reshards = strategy.reshards_after_forward && policy.reshard_after_forward;
  name.append(" ").append(VariantThat(reshards, strategy).name);
  if (policy.post_forward_ranks > 0) name += " to" + std::to_string(policy.post_forward_ranks);
  name.append(" ").append(WordOf(kBackwardPrefetchWords, policy.backward_prefetch));
  if (policy.backward_prefetch != BackwardPrefetch::kNone) {
    name += std::to_string(policy.backward_depth);
  }
  if (policy.forward_prefetch > 0) name += " fwd" + std::to_string(policy.forward_prefetch);
  if (policy.prefetch_lists != PrefetchLists()) name += " lists";
  if (policy.prefetch_limit > 0) name += " limit" + std::to_string(policy.prefetch_limit);
  if (policy.accumulation.sync == GradientSync::kNoSync) name += " no_sync";
  if (policy.accumulation.sync == GradientSync::kReduceScatterOnly) name += " scatters";
  if (!policy.accumulation.reshards) name += " keeps";
  if (!policy.accumulation.waits) name += " last";
  return name + PipelineName(policy) + TensorName(policy);
}

Result<Schedule> Build(const ModelDescription& model, const Policy& policy, bool evaluates) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckPolicy(policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckModel(model));
  SHARDSCOPE_RETURN_IF_ERROR(CheckStages(model, policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckPrefetchLists(model, policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckSlots(model, policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckSequence(model, policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckRecomputed(model, policy));
  SHARDSCOPE_RETURN_IF_ERROR(CheckOffload(policy));
  if (policy.checkpointing.mode == Checkpointing::kBudget) {
    Policy resolved = policy;
    SHARDSCOPE_ASSIGN_OR_RETURN(std::vector<int32_t> blocks, BlocksToRecompute(model, policy, {}));
    resolved.checkpointing = {.mode = Checkpointing::kBlocks, .blocks = std::move(blocks)};
    return Build(model, resolved, evaluates);
  }
  Schedule schedule = policy.strategy->build(model, policy);
  schedule.name = ScheduleName(policy) + CheckpointingName(policy.checkpointing);
  schedule.name += OffloadName(policy);
  if (policy.run_ahead >= 0) schedule.name += " ahead" + std::to_string(policy.run_ahead);
  if (policy.num_communicators == 2) schedule.name += " comm2";
  if (evaluates) KeepForwards(&schedule);
  if (!policy.strategy->has_element_budgets && !HasSlots(policy)) {
    BackwardPrefetchPass(policy, &schedule);
    ForwardPrefetchPass(policy, &schedule);
    RateLimitPass(policy.prefetch_limit, &schedule);
  }
  RunAheadPass(policy.run_ahead, &schedule);
  if (evaluates) NameEvaluation(&schedule);
  SHARDSCOPE_RETURN_IF_ERROR(Validate(schedule));
  return schedule;
}

}  // namespace

Result<Schedule> BuildSchedule(const ModelDescription& model, const Policy& policy) {
  return Build(model, policy, /*evaluates=*/false);
}

// Every micro-batch gathers for itself and frees what it has gathered; what ranks keep is the same.
Result<Schedule> BuildEvaluation(const ModelDescription& model, const Policy& policy) {
  Policy each_alone = policy;
  each_alone.accumulation = {.keeps_dtype = policy.accumulation.keeps_dtype};
  return Build(model, each_alone, /*evaluates=*/true);
}

}  // namespace shardscope::plan
