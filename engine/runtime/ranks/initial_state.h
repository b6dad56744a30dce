// Whether the ranks of a run begin as one model.
#pragma once

#include <cstdint>
#include <span>

#include "engine/runtime/ranks/device.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// What a rank tells the others of the parameters that it begins with.
struct InitialState {
  uint64_t drawn = 0;  // digest of a few values that it draws or reads: the same on all ranks
  uint64_t held = 0;   // digest of all that it holds
  // Which part of the model that is: ranks of the same one hold the same.
  int32_t stage = 0;
  int32_t shard = 0;
  int32_t tensor = 0;
  bool has_any = false;
  bool is_read = false;  // from files
};

InitialState InitialStateOf(const Job& job, int rank, RankWork* work);

// Error: a rank differs, named by its place in `states`. It is the one that is not as most others
// are; of two that differ, the second.
Status CheckInitialStates(std::span<const InitialState> states);

}  // namespace shardscope::runtime
