// The English sentences of errors that say that memory is out, with what is filled in. The app has
// each in Chinese (ui/catalogue/out_of_memory.inc).
#pragma once

namespace shardscope::footprint::out_of_memory {

// What it is that does not fit; another sentence may follow behind a full stop.
inline constexpr const char* kSchedule =
    "out of memory: schedule '{}' can need {} on a rank ({} in the order of the host), "
    "engine.memory_limit is {}";
inline constexpr const char* kStateMove =
    "out of memory: from '{}' to '{}' parameters and optimizer state have to move, which can need "
    "{} on a rank, as it may hold both, and engine.memory_limit is {}";
inline constexpr const char* kPool =
    "out of memory: rank {} holds {} and needs {} more, engine.memory_limit is {}";

// What is live at the peak, a list of categories; of each what has most of it.
inline constexpr const char* kPeakOfOp = "At the peak runs op {} '{}' on rank {}, with {}";
inline constexpr const char* kPeak = "At the peak on rank {}, with {}";
inline constexpr const char* kMoreHolders = "{} more";
inline constexpr const char* kWithCopy = "with the copy of the state for checkpoints";

// What to do.
inline constexpr const char* kFits = "What fits: {}";
inline constexpr const char* kRemedy = "{} saves {} ({}, {})";
inline constexpr const char* kNoneFits =
    "Of the options tried, alone and together, none makes it fit into {}";
inline constexpr const char* kSavesMost = "{}, which is most";
inline constexpr const char* kChangeModel =
    "raise engine.memory_limit, lower train.batch, model.seq, model.layers or model.dim, or use "
    "more ranks";
inline constexpr const char* kChangeGivenModel =
    "raise engine.memory_limit, lower train.batch or model.seq, train a smaller model, or use more "
    "ranks";
inline constexpr const char* kNoneBeside =
    "None of the options tried beside it makes it fit: stop the run, and go on from its checkpoint "
    "with it (--resume), or raise engine.memory_limit";
inline constexpr const char* kNoEvaluation = "or leave eval.every out";

}  // namespace shardscope::footprint::out_of_memory
