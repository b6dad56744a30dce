// In which order a rank runs the stages of a pipeline that are its own.
#pragma once

#include <vector>

#include "engine/plan/policy.h"

namespace shardscope::plan {

// Forward or backward of one micro-batch through the segments of one stage.
struct StageRun {
  Phase phase = Phase::kForward;
  int32_t micro_batch = 0;
  int32_t stage = 0;
  bool operator==(const StageRun&) const = default;
};

// Of the ranks at `place` along mesh.pipeline, which have every stage that is `place` modulo its
// size. Backwards of a stage come in the order of the micro-batches. Without a pipeline each
// micro-batch goes forward and back before the next.
std::vector<StageRun> StageOrder(const Policy& policy, int32_t num_stages, int32_t place);

}  // namespace shardscope::plan
