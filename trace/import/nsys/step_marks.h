// Steps by the ranges with which programs mark them: "step 12", "iteration: 3", "train_step".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/recording.h"

namespace shardscope::imports {

struct StepMark {
  std::string stem;     // what marks of one kind have in common
  int64_t number = -1;  // -1: it has none
};

// none: a range of that name marks no step.
std::optional<StepMark> StepMarkOf(std::string_view name);

// The steps that spans of threads mark: of those of one kind on one thread, none within another,
// that last longest together. Those without a number are counted from 0.
std::vector<RecordedStep> FindSteps(const Recording& recording);

}  // namespace shardscope::imports
