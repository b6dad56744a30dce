// Transports among virtual ranks: threads of one process that share one GPU.
//
//   local      real device copies and reduce kernels, as fast as the GPU's memory goes
//   emulated   the same bytes by kernels of few blocks that pace themselves to a link
//
// A call with Call::device_stream puts the collective on the streams of all ranks and returns; the
// pieces are device memory. The ranks' hosts meet first, and the last to come enqueues for all:
// waiting for an event that is not recorded yet is a silent no-op in CUDA, so no rank may wait
// for another one's event before that rank has issued its call. Each rank's share of the work goes
// on its own stream. A call without device_stream is about host memory and blocks, as shared_memory
// does.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/kernels.h"
#include "engine/transport/transport.h"

namespace shardscope::cuda {

struct LocalTransportOptions {
  int num_ranks = 1;  // at most kMaxLocalRanks
  int64_t timeout_ns = 0;
  RuntimeApi api;
  std::shared_ptr<Kernels> kernels;
  DeviceLog* log = nullptr;  // borrowed; may be null
};

// Throws TransportError if there are too many ranks.
std::unique_ptr<transport::Transport> MakeLocalTransport(const LocalTransportOptions& options);
std::unique_ptr<transport::Transport> MakeEmulatedDeviceTransport(
    const LocalTransportOptions& options, double bytes_per_second, int64_t latency_ns);

}  // namespace shardscope::cuda
