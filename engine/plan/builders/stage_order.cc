#include "engine/plan/builders/stage_order.h"

#include <algorithm>

namespace shardscope::plan {
namespace {

// A rank's runs, told as how many forwards come first: then one forward and one backward in turn,
// and at last the backwards that are left. The stages of a rank take turns after so many
// micro-batches.
struct Turns {
  int32_t warm_up = 0;
  int32_t micro_batches = 1;  // of a turn
};

// PyTorch's schedules.py: Schedule1F1B, ScheduleInterleaved1F1B (`warmup_ops`).
Turns TurnsOf(const Policy& policy, int32_t num_stages, int32_t place) {
  const int32_t ranks = policy.mesh.size(MeshDimension::kPipeline);
  const int32_t stages = num_stages / ranks;
  const int32_t all = policy.micro_batches * stages;
  const int32_t after = ranks - 1 - place;
  if (ranks == 1) return {.warm_up = 0, .micro_batches = 1};
  switch (policy.pipeline) {
    case PipelineSchedule::kOneByOne:
      return {.warm_up = 0, .micro_batches = 1};
    case PipelineSchedule::kGpipe:
      return {.warm_up = all, .micro_batches = policy.micro_batches};
    case PipelineSchedule::k1F1B:
      return {.warm_up = std::min(all, after), .micro_batches = policy.micro_batches};
    case PipelineSchedule::kInterleaved:
      break;
  }
  const int32_t rounds = std::max(1, policy.micro_batches / ranks);
  const int32_t turn = policy.micro_batches / rounds;
  return {.warm_up = std::min(all, (stages - 1) * turn + 2 * after), .micro_batches = turn};
}

}  // namespace

std::vector<StageRun> StageOrder(const Policy& policy, int32_t num_stages, int32_t place) {
  const int32_t ranks = policy.mesh.size(MeshDimension::kPipeline);
  const int32_t stages = num_stages / ranks;
  const int32_t all = policy.micro_batches * stages;
  const Turns turns = TurnsOf(policy, num_stages, place);
  // The micro-batch that each of the rank's stages runs next.
  std::vector<int32_t> forward(static_cast<size_t>(stages));
  std::vector<int32_t> backward(static_cast<size_t>(stages));
  std::vector<StageRun> order;
  for (int32_t run = 0; run < all + turns.warm_up; ++run) {
    if (run < all) {
      const int32_t own = run / turns.micro_batches % stages;
      const int32_t micro_batch = forward[static_cast<size_t>(own)]++;
      order.push_back({Phase::kForward, micro_batch, own * ranks + place});
    }
    if (run >= turns.warm_up) {
      const int32_t own = stages - 1 - (run - turns.warm_up) / turns.micro_batches % stages;
      const int32_t micro_batch = backward[static_cast<size_t>(own)]++;
      order.push_back({Phase::kBackward, micro_batch, own * ranks + place});
    }
  }
  return order;
}

}  // namespace shardscope::plan
