// What the categories and names of a Kineto trace stand for.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/base/words.h"

namespace shardscope::imports {

enum class EventClass : uint8_t {
  kHost,         // of a thread: operators, ranges, functions of Python
  kLaunch,       // of a thread: a call of a device's runtime or driver
  kKernel,       // of a stream
  kCopy,         // of a stream
  kSet,          // of a stream
  kDeviceRange,  // what programs marked, where it lies on a stream
  kSync,         // a wait, on a stream's row
  kInstant,      // a moment
  kNothing       // the profiler's own marks of its window
};

// Of a complete event (phase X). Categories of CUDA, ROCm, XPU, MTIA and others, old spellings too;
// an unknown one is of the host.
EventClass ClassOf(std::string_view category);

// Whether the category was one that ClassOf knows.
bool IsKnownCategory(std::string_view category);

// Whether a kernel of that name carries out a collective: NCCL's, RCCL's, HCCL's, oneCCL's,
// MSCCL++'s.
bool IsCommunicationKernel(std::string_view name);

// "Memcpy HtoD (Pageable -> Device)" and its likes.
words::GpuWorkKind CopyKindOf(std::string_view name);

// PyTorch's name of a collective ("_allgather_base") in our words ("all_gather"); another name
// stays.
std::string_view CollectiveKindOf(std::string_view name);

// By the name of a kernel: ncclDevKernel_AllGather_RING_LL; empty: not told.
std::string_view CollectiveKindOfKernel(std::string_view name);

// Whether the side that all ranks have together is the input of the call; else it is its output.
bool IsWholeBefore(std::string_view kind);

// Bytes of an element of PyTorch's type ("BFloat16"); 0: unknown.
int64_t BytesOfType(std::string_view dtype);

}  // namespace shardscope::imports
