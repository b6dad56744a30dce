// Ranges in which PyTorch's FSDP2 would have launched the ops of a rank: they tell readers of a
// Kineto trace the unit and the part of the step of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/schema/rows.h"

namespace shardscope::exports {

// When a thread asked for something, and what for; the row is borrowed.
struct Launch {
  int64_t time_ns = 0;
  const schema::PlanOpRow* op = nullptr;
};

struct TorchRange {
  std::string name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Of the launches of one thread, in any order. Names are those of torch/distributed/fsdp
// (_fully_shard/_fsdp_param_group.py) and of torch.optim. What is launched for one thing after the
// other shares a range, which goes on until the next one begins; a unit is left right before the
// next one computes. Of the launches nothing else is known, so unlike PyTorch's a range
// `pre_forward` holds the launches of the unit's forward.
std::vector<TorchRange> FsdpRanges(std::vector<Launch> launches);

}  // namespace shardscope::exports
