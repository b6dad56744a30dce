// DeviceHistory: what an allocator did on one device, event by event, and what it holds in the end,
// put together to its blocks, its memory over time and what it took from the driver.
//
// Note: what the events do not tell
// A snapshot keeps the newest events only. A block that is freed without an allocation, or is there
// in the end without one, was there before the first event; so was what the allocator held from the
// driver beyond what its events explain. Events have the bytes that the program asked for; how
// large the block is that it got is known of those that are there in the end. Of others it is taken
// for the next multiple of 512, as the allocator rounds (kMinBlockSize,
// c10/cuda/CUDACachingAllocator.h).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "trace/base/words.h"
#include "trace/import/memory_snapshot/annotations.h"
#include "trace/import/recording.h"

namespace shardscope::imports {

enum class AllocatorAction : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentGained,  // from the driver, or mapped
  kSegmentGiven,   // back to it
  kOutOfMemory,
  kNothing,  // a moment at which nothing changed
};

struct SnapshotEvent {
  AllocatorAction action = AllocatorAction::kNothing;
  int64_t time_ns = 0;
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t stream = 0;
  int64_t free_bytes = -1;  // of the device, where memory ran out; -1: not told
  Names::Index stack = 0;
  Names::Index context = 0;
};

// A block of a segment, as it is when the snapshot is taken.
struct SnapshotBlock {
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t requested_bytes = -1;  // -1: not told
  int64_t stream = 0;
  Names::Index stack = 0;
  bool is_pending_free = false;  // given back, and still used by a stream
};

class DeviceHistory {
 public:
  // Blocks are of the track `track` of the recording. The history begins at `begin_ns`.
  DeviceHistory(int32_t device, uint32_t track, int64_t begin_ns, Annotations* annotations,
                Recording* recording)
      : device_(device),
        track_(track),
        begin_ns_(begin_ns),
        last_ns_(begin_ns),
        annotations_(*annotations),
        recording_(*recording) {}

  // In their order.
  void Take(const SnapshotEvent& event);
  // After all events: each block that is in use.
  void Hold(const SnapshotBlock& block);
  // After all blocks. `reserved_bytes`: of all segments. `has_segments`: what Hold() was told is
  // all that there is.
  void Finish(int64_t end_ns, int64_t reserved_bytes, bool has_segments);

 private:
  using State = words::AllocationState;
  struct Live {
    RecordedAllocation block;
    bool is_free_requested = false;
    bool is_confirmed = false;  // by a segment
  };

  RecordedAllocation NewBlock(int64_t address, int64_t bytes, int64_t time_ns) const;
  Live& FindOrOld(const SnapshotEvent& event);
  void Begin(const SnapshotEvent& event);
  void End(int64_t address, int64_t time_ns);
  void Reserve(const SnapshotEvent& event, int64_t bytes);
  void Write(const Live& live);
  void WriteOutOfMemory(const SnapshotEvent& event);
  void Miss(const char* what) { ++recording_.not_understood[what]; }

  const int32_t device_;
  const uint32_t track_;
  const int64_t begin_ns_;
  int64_t last_ns_;
  Annotations& annotations_;
  Recording& recording_;
  std::unordered_map<int64_t, Live> live_;  // by address
  int64_t reserved_change_ = 0;             // by all events
  int64_t live_bytes_ = 0;                  // asked for, and not given back
};

}  // namespace shardscope::imports
