// What is said where a user asks for steps that a trace does not have.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "trace/base/status.h"

namespace shardscope::analysis {

// Of steps `first` to `last` the trace has none; it has some from `have_first` to `have_last` (-1:
// none is finished), between which steps may be missing: as where a run measured what recording
// costs.
inline Status NoSuchSteps(int32_t first, int32_t last, int32_t have_first, int32_t have_last) {
  const std::string asked = first == last ? fmt::format("no step {}", first)
                                          : fmt::format("no steps {} to {}", first, last);
  if (have_last < 0) return Status::Error(asked + ": this trace has no finished step yet");
  const bool is_gap = have_first < first && last < have_last;
  return Status::Error(fmt::format("{}: this trace has the steps {} to {}{}", asked, have_first,
                                   have_last, is_gap ? ", with gaps" : ""));
}

}  // namespace shardscope::analysis
