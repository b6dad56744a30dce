// The steps of a recording, by the moments of its host.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/import/recording.h"

namespace shardscope::imports {

class HostSteps {
 public:
  // Of the marks of a recording, each once. Without any, steps end as PyTorch's ranges of
  // optimizers do; without these too, all of it is step 0, or of a recording that has no
  // steps, none.
  explicit HostSteps(const Recording& recording);

  const std::vector<RecordedStep>& steps() const { return steps_; }
  // By marks or ranges: else they are made up.
  bool are_marked() const { return are_marked_; }

  // Index of the last step that had begun; -1: none had.
  int64_t IndexAt(int64_t time_ns) const;

 private:
  std::vector<RecordedStep> steps_;  // by start
  bool are_marked_ = true;
};

}  // namespace shardscope::imports
