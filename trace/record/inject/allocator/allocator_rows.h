// AllocatorRows: events of a caching allocator as rows: each block when it is handed out and when
// it is back, by whose it is; what the allocator holds from the driver; a marker where memory ran
// out.
//
// Note: how many bytes a block has
// An event has what the program asked for; the block that it got may be larger. The allocator's
// own sum of all blocks, which comes with each event, reveals it with the next event of the device:
// so a block's rows are made one event late. What the sum has beyond all known blocks (those from
// before the events began, blocks that the allocator moved by itself) becomes rows without an
// owner: the rows of a device always add up to the allocator's own sum.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trace/base/mutex.h"
#include "trace/record/inject/allocator/allocator_event.h"
#include "trace/record/recorder.h"

namespace shardscope::inject {

// Where the rows go.
class AllocatorTarget {
 public:
  virtual ~AllocatorTarget() = default;
  virtual record::Recorder& recorder() = 0;
  virtual int64_t rank() const = 0;
  virtual schema::StringId Name(std::string_view text) = 0;
  // The track of the calling thread, and one for the allocator's own counters.
  virtual schema::TrackId ThreadTrack() = 0;
  virtual schema::TrackId CounterTrack() = 0;
};

// Threads: any.
class AllocatorRows {
 public:
  explicit AllocatorRows(AllocatorTarget* target) : target_(target) {}

  void Add(const ShardscopeAllocatorEvent& event);
  // Rows of what is still held. What comes later is ignored.
  void Finish(int64_t end_ns);

  // How often the allocator's sum was not what its events had made of it. Blocks from before the
  // events began do not count.
  int64_t unexplained() const;

 private:
  struct Block {
    int64_t bytes = 0;  // of the block
    schema::AllocationRow row;
  };
  struct Device {
    std::string name;          // "GPU 0"
    int64_t active_bytes = 0;  // of the rows so far
    int64_t reserved_bytes = 0;
    int64_t old_bytes = 0;                       // of blocks from before the events began
    std::unordered_map<uint64_t, Block> blocks;  // by address
    std::optional<uint64_t> unsettled;           // the block whose bytes the next event reveals
  };

  Device& DeviceOf(const ShardscopeAllocatorEvent& event) REQUIRES(mutex_);
  void Settle(const ShardscopeAllocatorEvent& event, Device* device) REQUIRES(mutex_);
  void SettleBlock(int64_t bytes, Device* device);
  void Begin(const ShardscopeAllocatorEvent& event, Device* device);
  void End(const ShardscopeAllocatorEvent& event, Device* device);
  void Reserve(int64_t change, const ShardscopeAllocatorEvent& event, Device* device)
      REQUIRES(mutex_);
  void WriteMemory(const Device& device, const schema::AllocationRow& row, int64_t issued_ns,
                   int64_t executed_ns, int64_t bytes);
  void WriteOutOfMemory(const ShardscopeAllocatorEvent& event);

  AllocatorTarget* const target_;
  mutable Mutex mutex_;
  std::map<int32_t, Device> devices_ GUARDED_BY(mutex_);
  schema::TrackId counter_track_ GUARDED_BY(mutex_) = schema::TrackId::None();
  schema::StringId reserved_name_ GUARDED_BY(mutex_);
  int64_t unexplained_ GUARDED_BY(mutex_) = 0;
  bool is_finished_ GUARDED_BY(mutex_) = false;
};

// Any thread, under the allocator's own lock: waits for other callers only.
void AddAllocatorEvent(const ShardscopeAllocatorEvent& event);

}  // namespace shardscope::inject
