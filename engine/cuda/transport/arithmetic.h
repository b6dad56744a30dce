// What the kernels of this folder compute, for one element or one decision: compiled for the GPU
// and for the CPU, so that the same code is tested without a GPU. No CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan/formats.h"

namespace shardscope::cuda {

// Virtual ranks of one GPU that a reduction can take in one kernel: its inputs travel as arguments.
inline constexpr int kMaxLocalRanks = 16;

// The CPU's, so that sums are equal bit for bit.
using plan::Bf16Format;
using plan::Fp16Format;
using plan::Fp32Format;
using plan::Fp64Format;

// When a paced collective moves its bytes, on the GPU's globaltimer: the first at `start_ns`, the
// last at `end_ns`. In between the wire fills evenly, as a token bucket of the link's rate does.
struct LinkWindow {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

// What a collective asks of the wire.
struct LinkRequest {
  uint32_t ranks = 0;  // whose wires: a bit each
  uint64_t latency_ns = 0;
  uint64_t transfer_ns = 0;  // wire bytes / bandwidth
};

// Every rank's wire: when its last collective has ended.
struct LinkWires {
  uint64_t free_from_ns[kMaxLocalRanks] = {};
  uint32_t lock = 0;  // 1: being reserved
};

// As transport::Link::Reserve: the wires are the collective's alone from the last arrival, or from
// the end of the last one on any of them.
SHARDSCOPE_HOST_DEVICE inline LinkWindow ReserveWindow(uint64_t arrival_ns, LinkRequest request,
                                                       LinkWires* wires) {
  uint64_t begin_ns = arrival_ns;
  for (int rank = 0; rank < kMaxLocalRanks; ++rank) {
    const uint64_t free_from_ns = wires->free_from_ns[rank];
    if ((request.ranks >> rank & 1U) != 0 && free_from_ns > begin_ns) begin_ns = free_from_ns;
  }
  const uint64_t start_ns = begin_ns + request.latency_ns;
  const uint64_t end_ns = start_ns + request.transfer_ns;
  for (int rank = 0; rank < kMaxLocalRanks; ++rank) {
    if ((request.ranks >> rank & 1U) != 0) wires->free_from_ns[rank] = end_ns;
  }
  return {start_ns, end_ns};
}

// When the wire has carried `part` (0 to 1) of the collective's bytes.
SHARDSCOPE_HOST_DEVICE inline uint64_t DueAt(LinkWindow window, double part) {
  if (part >= 1) return window.end_ns;
  const auto span_ns = static_cast<double>(window.end_ns - window.start_ns);
  return window.start_ns + static_cast<uint64_t>(span_ns * part);
}

// One turn of a kernel that waits for a time. It ends at `due_ns`, or after `limit_ns` of waiting,
// or after so many turns that the clock must stand still: whatever is wrong with the times, the GPU
// does not hang.
struct Spin {
  static constexpr uint32_t kMaxSleepNs = 1000;
  static constexpr uint64_t kMinTurnNs = 20;  // no turn is shorter: two reads of the clock

  uint64_t since_ns = 0;
  uint64_t limit_ns = 0;
  uint64_t num_turns = 0;

  // Whether to wait on; then for `*sleep_ns`.
  SHARDSCOPE_HOST_DEVICE bool WaitsOn(uint64_t now_ns, uint64_t due_ns, uint32_t* sleep_ns) {
    if (now_ns >= due_ns || now_ns - since_ns > limit_ns) return false;
    if (++num_turns > limit_ns / kMinTurnNs) return false;
    const uint64_t left_ns = due_ns - now_ns;
    *sleep_ns = left_ns < kMaxSleepNs ? static_cast<uint32_t>(left_ns) : kMaxSleepNs;
    return true;
  }
};

}  // namespace shardscope::cuda
