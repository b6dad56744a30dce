// What names of collectives, and of the kernels that carry them out, stand for.
#pragma once

#include <string_view>

namespace shardscope::imports {

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

}  // namespace shardscope::imports
