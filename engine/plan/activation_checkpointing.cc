#include "engine/plan/activation_checkpointing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "trace/base/units.h"

namespace shardscope::plan {
namespace {

const Recomputable& At(const ModelDescription& model, int32_t segment) {
  static const Recomputable kNever;
  const auto index = static_cast<size_t>(segment);
  return index < model.recomputable.size() ? model.recomputable[index] : kNever;
}

bool IsChosen(const ActivationCheckpointing& checkpointing, int32_t block) {
  switch (checkpointing.mode) {
    case Checkpointing::kEvery:
      return (block + 1) % checkpointing.every == 0;
    case Checkpointing::kBlocks:
      return std::ranges::binary_search(checkpointing.blocks, block);
    case Checkpointing::kProducts:
      return true;
    case Checkpointing::kNone:
    case Checkpointing::kBudget:
      break;
  }
  return false;
}

// A measured forward is never the same twice: what differs less counts as equal.
constexpr double kCostsDiffer = 1.1;

// Blocks that shall keep their activations, the first ones most.
std::vector<int32_t> InOrderOfKeeping(const ModelDescription& model,
                                      const std::vector<double>& segment_costs) {
  std::map<int32_t, double> costs;  // by block
  for (int32_t segment = 0; segment < std::ssize(model.segments); ++segment) {
    const int32_t block = At(model, segment).block;
    if (block == kNone) continue;
    double cost = 0;
    if (!segment_costs.empty()) {
      cost = segment_costs[static_cast<size_t>(segment)];
    } else {
      for (const int32_t unit : model.segments[static_cast<size_t>(segment)].units) {
        cost += static_cast<double>(UnitElements(model.units[static_cast<size_t>(unit)]));
      }
    }
    costs[block] += cost;
  }
  std::vector<int32_t> blocks;
  double least = 0;
  for (const auto& [block, cost] : costs) {
    blocks.push_back(block);
    least = blocks.size() == 1 ? cost : std::min(least, cost);
  }
  // In steps of kCostsDiffer above the cheapest, so that the order is one.
  const auto rank = [&](int32_t block) {
    int steps = 0;
    for (double above = costs.at(block); least > 0 && above >= kCostsDiffer * least;
         above /= kCostsDiffer) {
      ++steps;
    }
    return std::pair(-steps, -block);
  };
  std::ranges::sort(blocks, {}, rank);
  return blocks;
}

}  // namespace

std::vector<Keeps> WhatForwardKeeps(const ModelDescription& model,
                                    const ActivationCheckpointing& checkpointing) {
  std::vector<Keeps> keeps(model.segments.size(), Keeps::kAll);
  for (int32_t segment = 0; segment < std::ssize(model.segments); ++segment) {
    const Recomputable& recomputable = At(model, segment);
    if (recomputable.block == kNone || !IsChosen(checkpointing, recomputable.block)) continue;
    const Segment& description = model.segments[static_cast<size_t>(segment)];
    const int64_t kept_bytes = description.output_bytes + recomputable.product_bytes;
    if (checkpointing.mode != Checkpointing::kProducts) {
      keeps[static_cast<size_t>(segment)] = Keeps::kOutput;
    } else if (kept_bytes < description.activation_bytes) {
      keeps[static_cast<size_t>(segment)] = Keeps::kProducts;
    }
  }
  return keeps;
}

bool GoOnTogether(const ModelDescription& model, const std::vector<Keeps>& keeps, int32_t segment) {
  const int32_t next = segment + 1;
  if (segment < 0 || next >= std::ssize(model.segments)) return false;
  const auto is_recomputed = [&](int32_t one) {
    return keeps[static_cast<size_t>(one)] == Keeps::kOutput;
  };
  const auto stage_of = [&](int32_t one) { return model.segments[static_cast<size_t>(one)].stage; };
  return is_recomputed(segment) && is_recomputed(next) && stage_of(segment) == stage_of(next) &&
         At(model, segment).block == At(model, next).block;
}

Result<std::vector<int32_t>> BlocksToRecompute(const ModelDescription& model, const Policy& policy,
                                               const std::vector<double>& segment_costs) {
  const int64_t budget_bytes = policy.checkpointing.budget_bytes;
  const std::vector<int32_t> order = InOrderOfKeeping(model, segment_costs);
  Policy candidate = policy;
  candidate.checkpointing = {.mode = Checkpointing::kBlocks};
  // Peak if those blocks keep their activations.
  const auto peak_with = [&](const std::vector<int32_t>& keeping) -> Result<int64_t> {
    candidate.checkpointing.blocks.clear();
    for (const int32_t block : order) {
      if (std::ranges::count(keeping, block) == 0) candidate.checkpointing.blocks.push_back(block);
    }
    std::ranges::sort(candidate.checkpointing.blocks);
    SHARDSCOPE_ASSIGN_OR_RETURN(const Schedule schedule, BuildSchedule(model, candidate));
    return PredictLargestPeak(schedule);
  };
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t least_bytes, peak_with({}));
  if (least_bytes > budget_bytes) {
    return Status::Error("checkpointing: with every block recomputed a rank still needs " +
                         FormatBytes(least_bytes) + ", more than the budget of " +
                         FormatBytes(budget_bytes) +
                         ": raise it, or lower train.batch or model.seq");
  }
  // The more keep theirs the higher the peak: halving finds how many of the first ones can.
  size_t fits = 0;
  size_t too_many = order.size() + 1;
  const auto first = [&](size_t count) {
    return std::vector<int32_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
  };
  while (fits + 1 < too_many) {
    const size_t middle = (fits + too_many) / 2;
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t bytes, peak_with(first(middle)));
    (bytes <= budget_bytes ? fits : too_many) = middle;
  }
  std::vector<int32_t> keeping = first(fits);
  // Some of the others may still fit: of other ranks of a pipeline, or needed sooner.
  for (size_t at = too_many; at < order.size(); ++at) {
    keeping.push_back(order[at]);
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t bytes, peak_with(keeping));
    if (bytes > budget_bytes) keeping.pop_back();
  }
  std::vector<int32_t> blocks;
  for (const int32_t block : order) {
    if (std::ranges::count(keeping, block) == 0) blocks.push_back(block);
  }
  std::ranges::sort(blocks);
  return blocks;
}

std::string CheckpointingName(const ActivationCheckpointing& checkpointing) {
  switch (checkpointing.mode) {
    case Checkpointing::kNone:
    case Checkpointing::kBudget:
      return "";
    case Checkpointing::kEvery:
      if (checkpointing.every == 1) return " recompute";
      return " recompute every" + std::to_string(checkpointing.every);
    case Checkpointing::kBlocks:
      if (checkpointing.blocks.empty()) return "";
      return " recompute " + std::to_string(checkpointing.blocks.size()) + " blocks";
    case Checkpointing::kProducts:
      return " recompute products";
  }
  return "";
}

}  // namespace shardscope::plan
