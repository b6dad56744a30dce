// What names of collectives, and of the kernels that carry them out, stand for. A kind is a word of
// words::OpKind, "send_receive" (words::OpClass), or one of those that no Schedule has, below.
#pragma once

#include <string_view>

namespace shardscope {

inline constexpr std::string_view kAllToAll = "all_to_all";
inline constexpr std::string_view kBarrier = "barrier";
inline constexpr std::string_view kCoalesced = "coalesced";  // several as one

// PyTorch's description of the group of all ranks.
inline constexpr std::string_view kDefaultGroup = "default_pg";
// Whether PyTorch's description of a group says what it was made for.
inline bool SaysPurpose(std::string_view description) {
  return !description.empty() && description != "undefined";
}

// Whether a kernel of that name carries out a collective: NCCL's, RCCL's, HCCL's, oneCCL's,
// MSCCL++'s.
bool IsCommunicationKernel(std::string_view name);

// PyTorch's name of a collective ("_allgather_base") in our words ("all_gather"); another name
// stays.
std::string_view CollectiveKindOf(std::string_view name);

// By the name of a kernel: ncclDevKernel_AllGather_RING_LL; empty: not told.
std::string_view CollectiveKindOfKernel(std::string_view name);

// Whether the side that all ranks have together is the input of the call; else it is its output.
bool IsWholeBefore(std::string_view kind);

// Whether all ranks give the same sizes: not where each sends any size, or one is the root.
bool HasEqualSizes(std::string_view kind);

}  // namespace shardscope
