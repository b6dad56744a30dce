// The transport over NCCL: one GPU per rank, ranks being threads of this process or processes.
//
// A call with Call::device_stream puts the collective on that stream and returns; one without is
// about host memory and goes to the host's transport. Every communicator of the Schedule is an NCCL
// communicator of its own, made at its first use.
//
// Sums are NCCL's: not in rank order, and in bf16 and fp16 rounded at every step of its ring or
// tree. Runs on the same GPUs with the same settings repeat, but other transports give other last
// bits. The scale is multiplied once at the end, as everywhere.
//
// A thread of its own watches all communicators: it finds NCCL's asynchronous errors, and
// collectives and calls of NCCL that do not end in time. Both abort all communicators of this
// process, which ends their kernels, so that no rank waits for ever; the next call, and
// ThrowIfAborted(), throw the reason, with the rank that is late: processes tell one another how
// far they are (nccl_board.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/kernels.h"
#include "engine/cuda/transport/nccl/nccl_api.h"
#include "engine/transport/transport.h"

namespace shardscope::cuda {

struct NcclTransportOptions {
  int num_ranks = 1;
  int64_t timeout_ns = 0;  // since the last collective of a communicator ended; 0: for ever
  int64_t look_every_ns = 50'000'000;
  int64_t abort_patience_ns = 5'000'000'000;  // for threads that an abort finds inside NCCL
  RuntimeApi api;
  NcclApi nccl;
  std::shared_ptr<Kernels> kernels;
  std::function<int(int rank)> device_of_rank;  // null: all ranks' is the first one
  DeviceLog* log = nullptr;      // borrowed; may be null; notes when a thread is in NCCL
  std::optional<int> only_rank;  // of this process, where each rank has one; else it has all
};

// `host` carries unique ids, broadcasts and host memory among the same ranks.
std::unique_ptr<transport::Transport> MakeNcclTransport(const NcclTransportOptions& options,
                                                        std::unique_ptr<transport::Transport> host);

}  // namespace shardscope::cuda
