// NcclCalls: what a process asked of NCCL, by the ranges that NCCL marks itself, and which kernel
// carries out which of its calls. Fields of their payloads: NVIDIA/nccl
// src/include/nvtx_payload_schemas.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/nsys/payload.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

// What a range of NCCL says of the communicator it belongs to.
struct NcclMember {
  int64_t communicator = 0;  // equal on all of its ranks
  int64_t num_ranks = 0;
  int64_t rank = 0;    // in it
  int64_t device = 0;  // of CUDA

  bool operator==(const NcclMember&) const = default;
};

// none: the payload is not that of a call that begins a communicator.
std::optional<NcclMember> NcclMemberOf(const Payload& payload);

// The name of a communicator's group.
std::string NcclGroupName(int64_t communicator);

class NcclCalls {
 public:
  // A range of NCCL's domain, with its payload; by any order.
  void Take(std::string_view name, const Payload& payload, const RecordedSpan& span);

  // Gives the kernels of a recording the calls that they carry out: the one around the launch of a
  // kernel, or those of the group that ended there. `ranks_of`: how many a communicator has, where
  // that is known. Spans need no order.
  void Join(const std::map<int64_t, int64_t>& ranks_of, Recording* recording);

 private:
  struct Call {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    std::string kind;  // empty: a group begins or ends
    std::optional<int64_t> communicator;
    int64_t bytes = -1;         // of one rank, where each has a part; -1: not told
    std::vector<size_t> calls;  // of the group that it ends; indices on its thread
    bool begins_group = false;
  };
  using Calls = std::vector<Call>;  // of a thread, by start

  static void CloseGroups(Calls* calls);
  // The innermost range that a launch was in; none: it was in none.
  static std::optional<size_t> IndexAt(const Calls& calls, int64_t time_ns);
  static void TakeExchange(const Calls& calls, std::vector<size_t>* of_kernel,
                           RecordedCollective* collective);
  static RecordedCollective CollectiveOf(const Calls& calls, std::vector<size_t> of_kernel,
                                         const std::map<int64_t, int64_t>& ranks_of);

  std::map<uint32_t, Calls> calls_;  // by track
};

}  // namespace shardscope::imports
