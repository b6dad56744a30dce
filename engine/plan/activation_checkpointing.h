// Activation checkpointing: what forward keeps of a block's activations, and what is computed again
// for its backward (Chen et al., arXiv 1604.06174; PyTorch's torch.utils.checkpoint).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/model_description.h"
#include "trace/base/status.h"

namespace shardscope::plan {

struct Policy;

// How the blocks whose activations are recomputed are chosen.
enum class Checkpointing : uint8_t {
  kNone,
  kEvery,     // every k-th block, from the k-th on (torchtitan's layer-wise option)
  kBlocks,    // those that are listed
  kProducts,  // all, of each only what is cheap (Korthikanti et al., arXiv 2205.05198, section 5)
  kBudget,    // the cheapest that make the predicted peak fit
};

struct ActivationCheckpointing {
  Checkpointing mode = Checkpointing::kNone;
  int every = 1;                // kEvery; 1: all blocks
  std::vector<int32_t> blocks;  // kBlocks, ascending
  int64_t budget_bytes = 0;     // kBudget; of the largest peak in issue order, PredictLargestPeak()
  bool operator==(const ActivationCheckpointing&) const = default;
};

// What a segment's forward keeps for its backward.
enum class Keeps : uint8_t {
  kAll,
  kProducts,  // output and products
  kOutput,    // the output, up to the block's end; all of it is recomputed from the block's input
};

// By segment. Not of mode kBudget, which BuildSchedule() resolves first.
std::vector<Keeps> WhatForwardKeeps(const ModelDescription& model,
                                    const ActivationCheckpointing& checkpointing);

// Whether the segment and the one after it are recomputed one after the other, so that what is
// between them is not kept.
bool GoOnTogether(const ModelDescription& model, const std::vector<Keeps>& keeps, int32_t segment);

// The blocks of mode kBudget: as many as possible keep their activations, those first that take the
// longest to compute, and among equal ones those that are needed first. `segment_costs`: of a
// forward of each segment, in any unit; empty: products with the parameters are counted. Builds
// schedules, about as many as there are blocks. An error if the budget is too small even for all.
Result<std::vector<int32_t>> BlocksToRecompute(const ModelDescription& model, const Policy& policy,
                                               const std::vector<double>& segment_costs);

// " recompute", " recompute every2", " recompute 3 blocks", " recompute products".
std::string CheckpointingName(const ActivationCheckpointing& checkpointing);

}  // namespace shardscope::plan
