// The NCCL door: a profiler plugin that records when collectives, sends and receives are put on
// their streams, with sequence number, algorithm and protocol.
//
// NCCL ends these events once the work is enqueued, not when the GPU has done it: they are spans of
// the host. One track a communicator; the sequence number is the counter "sequence" on it.
#pragma once

#include "trace/record/inject/nccl/nccl_abi.h"

namespace shardscope::inject {

extern const nccl::PluginV5 kNcclPluginV5;
extern const nccl::PluginV4 kNcclPluginV4;

}  // namespace shardscope::inject
