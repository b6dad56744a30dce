// CheckpointPlan: before which steps a run leaves a checkpoint by itself, as checkpoint.every says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardscope::runtime {

// Threads: what is of a rank on its own host thread.
class CheckpointPlan {
 public:
  // `first_step`: that the run begins with; its state there it has from elsewhere.
  CheckpointPlan(int64_t first_step, int num_ranks)
      : first_step_(first_step), saved_(static_cast<size_t>(num_ranks), kNone) {}

  // Whether the rank has to save its state before `step`, with which the run may end, and has not
  // yet. `every`: checkpoint.every, 0: never. On all ranks alike.
  bool IsDue(int rank, int64_t step, int64_t every, bool is_end) const {
    const bool is_planned = IsDueAtEnd(step, every) && (is_end || step % every == 0);
    return is_planned && saved_[static_cast<size_t>(rank)] != step;
  }
  // Whether a run that ends before `step` leaves its result in a checkpoint.
  bool IsDueAtEnd(int64_t step, int64_t every) const { return every > 0 && step > first_step_; }

  // Whoever asked for that checkpoint.
  void SetSaved(int rank, int64_t step) { saved_[static_cast<size_t>(rank)] = step; }

 private:
  static constexpr int64_t kNone = -1;

  const int64_t first_step_;
  std::vector<int64_t> saved_;  // by rank: before which step it last saved its state
};

}  // namespace shardscope::runtime
