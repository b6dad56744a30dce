// What the host was doing when it asked for work: the FSDP unit, the part of the step, and the kind
// of work, by the ranges and operators around that moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/words.h"
#include "trace/import/recording.h"
#include "trace/import/steps.h"

namespace shardscope::imports {

using words::Phase;

enum class HostAction : uint8_t {
  kCompute,
  kGather,      // brings a unit's parameters together: copies in front are copy_in
  kCopyOut,     // behind a gather
  kReduce,      // reduces a unit's gradients: copies in front are copy_in, behind it accumulate
  kAccumulate,  // adds up gradients of several micro-batches
  kReshard
};

struct HostContext {
  Names::Index unit = 0;  // of a name in the recording; 0: none
  Phase phase = Phase::kForward;
  HostAction action = HostAction::kCompute;
  // Between the functions of a backward nothing says that it goes on: kBackward from its first one
  // until something of a forward, the optimizer or the next step begins.
  Phase since = Phase::kForward;
};

// What a range says by its own name, as those of FSDP2 do.
struct NamedPart {
  std::string unit;            // empty: none
  std::optional<Phase> phase;  // none: it says nothing of it
};
NamedPart PartOfRange(const std::string& name);

struct HostMoment {
  uint32_t track = 0;  // of a thread
  int64_t time_ns = 0;
};

// The context of each moment. Units get their names from PyTorch's ranges: FSDP2's
// "FSDP::pre_forward (layers.0)" (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py), else
// "unit k", in the order of FSDP1's "FullyShardedDataParallel.forward" ranges in a step
// (torch/distributed/fsdp/fully_sharded_data_parallel.py). The spans of the recording are in order:
// by start, what encloses first. Adds names to the recording.
std::vector<HostContext> ContextsAt(Recording* recording, const HostSteps& steps,
                                    const std::vector<HostMoment>& moments);

}  // namespace shardscope::imports
