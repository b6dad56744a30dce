// FinishedStepFor: the step that is shown where what is shown is of a finished one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trace/analysis/explain/critical_path.h"
#include "trace/query/snapshot.h"

namespace shardscope::shell {

// `step`, which may be -1, if all ranks have finished it, else the newest that they have.
inline int32_t FinishedStepFor(const query::Snapshot& snapshot, int32_t step) {
  const int32_t newest = analysis::NewestStepOfAll(snapshot);
  return step < 0 ? newest : std::min(step, newest);
}

}  // namespace shardscope::shell
