// What a library in the recorded process reports of a caching allocator for GPU memory. In terms of
// C: it may be built against another C++ library than this one.
#pragma once

#include <cstdint>

extern "C" {

enum ShardscopeAllocatorAction {
  kShardscopeAttached,  // from now on; the allocator may hold memory already
  kShardscopeAlloc,
  kShardscopeFreeRequested,
  kShardscopeFreeCompleted,
  kShardscopeSegmentGained,  // from the driver
  kShardscopeSegmentGiven,   // back to it
  kShardscopeOutOfMemory
};

// Events of one device come one at a time, in the order in which they happen, on whichever thread
// causes them; those of several devices at once.
struct ShardscopeAllocatorEvent {
  int64_t time_ns;  // CLOCK_MONOTONIC
  int32_t action;   // ShardscopeAllocatorAction
  int32_t device;
  uint64_t address;  // out of memory: bytes that the device has free
  uint64_t stream;   // the CUDA stream that it was allocated for
  int64_t bytes;     // as the program asked for them; of a segment: its own
  // The allocator's own figures at this moment: bytes of all blocks that are in use (handed
  // out, or given back and still used by a stream), and of all its segments. In them are all events
  // before this one, and not this one; but a segment that just came or went may be.
  int64_t active_bytes;
  int64_t reserved_bytes;
  // Whose it is: text that lasts during the call, null if not known. The innermost range that is
  // open on the thread, FSDP's unit, forward, backward or optimizer, category of memory_event.
  const char* range;
  const char* unit;
  const char* phase;
  const char* category;
};

typedef void (*ShardscopeAllocatorSink)(const struct ShardscopeAllocatorEvent* event);

}  // extern "C"
