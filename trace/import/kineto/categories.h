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

// Whether the category was one of those of ClassOf.
bool IsKnownCategory(std::string_view category);

// "Memcpy HtoD (Pageable -> Device)" and others of its kind.
words::GpuWorkKind CopyKindOf(std::string_view name);

}  // namespace shardscope::imports
