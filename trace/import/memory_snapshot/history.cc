#include "trace/import/memory_snapshot/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "trace/base/reasons.h"
#include "trace/base/round_up.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::imports {
namespace {

constexpr int64_t kMinBlockBytes = 512;
// More than any GPU has, and less than a row of memory_event may have (trace/query/sane.h).
constexpr int64_t kMostBlockBytes = int64_t{1} << 39;
constexpr int64_t kMostSumBytes = int64_t{1} << 47;

int64_t SaneSize(int64_t bytes) { return std::clamp<int64_t>(bytes, 0, kMostBlockBytes); }

int64_t BlockBytes(int64_t bytes) {
  return std::max(RoundUp(bytes, kMinBlockBytes), kMinBlockBytes);
}

}  // namespace

RecordedAllocation DeviceHistory::NewBlock(int64_t address, int64_t bytes, int64_t time_ns) const {
  RecordedAllocation block;
  block.allocated_ns = time_ns;
  block.address = address;
  block.requested_bytes = SaneSize(bytes);
  block.block_bytes = BlockBytes(block.requested_bytes);
  block.device = device_;
  block.track = track_;
  return block;
}

// The block at the address of an event that gives it back; if there is none it is an old one.
DeviceHistory::Live& DeviceHistory::FindOrOld(const SnapshotEvent& event) {
  const auto [found, is_new] = live_.try_emplace(event.address);
  if (is_new) {
    found->second.block = NewBlock(event.address, event.bytes, begin_ns_);
    found->second.block.stream = event.stream;
    live_bytes_ = std::min(live_bytes_ + found->second.block.block_bytes, kMostSumBytes);
  }
  return found->second;
}

void DeviceHistory::Begin(const SnapshotEvent& event) {
  if (live_.contains(event.address)) {
    Miss("blocks handed out again without being freed: taken for freed then");
    End(event.address, event.time_ns);
  }
  Live& live = live_[event.address];
  live.block = NewBlock(event.address, event.bytes, event.time_ns);
  live.block.stream = event.stream;
  live.block.stack = event.stack;
  live.block.context = event.context;
  const Annotations::Owner owner = annotations_.OwnerAt(device_, event.time_ns);
  live.block.range = owner.range;
  live.block.unit = owner.unit;
  live.block.phase = owner.phase;
  live_bytes_ = std::min(live_bytes_ + live.block.block_bytes, kMostSumBytes);
}

void DeviceHistory::End(int64_t address, int64_t time_ns) {
  const auto found = live_.find(address);
  Live& live = found->second;
  if (!live.is_free_requested) live.block.free_requested_ns = time_ns;
  live.block.free_completed_ns = std::max(time_ns, live.block.free_requested_ns);
  live.block.state = State::kFreed;
  live_bytes_ = std::max<int64_t>(live_bytes_ - live.block.block_bytes, 0);
  Write(live);
  live_.erase(found);
}

void DeviceHistory::Reserve(const SnapshotEvent& event, int64_t bytes) {
  reserved_change_ = std::clamp(reserved_change_ + bytes, -kMostSumBytes, kMostSumBytes);
  recording_.allocator.segments.push_back({event.time_ns, event.address, bytes, device_});
}

void DeviceHistory::WriteOutOfMemory(const SnapshotEvent& event) {
  const std::string free = event.free_bytes < 0
                               ? ""
                               : fmt::format(reasons::kGpuBytesFree, FormatBytes(event.free_bytes));
  std::string text =
      fmt::format(reasons::kGpuOutOfMemory, device_, FormatBytes(SaneSize(event.bytes)), free,
                  FormatBytes(live_bytes_));
  const Annotations::Owner owner = annotations_.OwnerAt(device_, event.time_ns);
  if (owner.range != 0) text += fmt::format(reasons::kInRange, recording_.names[owner.range]);
  if (event.stack != 0) {
    text += fmt::format(reasons::kAskedForBy, FirstLine(recording_.names[event.stack]));
  }
  recording_.markers.push_back({event.time_ns, words::MarkerKind::kError, std::move(text)});
}

void DeviceHistory::Take(const SnapshotEvent& event) {
  SnapshotEvent taken = event;
  if (taken.time_ns < last_ns_) {
    Miss("events that are older than those before them: taken for as late");
    taken.time_ns = last_ns_;
  }
  last_ns_ = taken.time_ns;
  if (taken.bytes != SaneSize(taken.bytes)) {
    Miss("events with a size that no GPU has: taken for 0, or for 550 GB");
  }
  switch (taken.action) {
    case AllocatorAction::kAlloc:
      return Begin(taken);
    case AllocatorAction::kFreeRequested: {
      Live& live = FindOrOld(taken);
      if (!live.is_free_requested) live.block.free_requested_ns = taken.time_ns;
      live.is_free_requested = true;
      return;
    }
    case AllocatorAction::kFreeCompleted: {
      const bool is_old = !live_.contains(taken.address);
      Live& live = FindOrOld(taken);
      if (is_old) {  // it was asked for before the events began
        live.block.free_requested_ns = begin_ns_;
        live.is_free_requested = true;
      }
      return End(taken.address, taken.time_ns);
    }
    case AllocatorAction::kSegmentGained:
      return Reserve(taken, SaneSize(taken.bytes));
    case AllocatorAction::kSegmentGiven:
      return Reserve(taken, -SaneSize(taken.bytes));
    case AllocatorAction::kOutOfMemory:
      return WriteOutOfMemory(taken);
    case AllocatorAction::kNothing:
      return;
  }
}

void DeviceHistory::Hold(const SnapshotBlock& block) {
  const int64_t requested = block.requested_bytes < 0 ? block.bytes : block.requested_bytes;
  const auto [found, is_old] = live_.try_emplace(block.address);
  Live& live = found->second;
  if (live.is_confirmed) return Miss("blocks that stand in two segments");
  if (is_old) {
    live.block = NewBlock(block.address, requested, begin_ns_);
    live.block.stream = block.stream;
  }
  if (live.block.stack == 0) live.block.stack = block.stack;
  live.block.block_bytes = SaneSize(std::max(block.bytes, live.block.requested_bytes));
  if (block.is_pending_free && !live.is_free_requested) {
    live.block.free_requested_ns = is_old ? begin_ns_ : last_ns_;
    live.is_free_requested = true;
  }
  live.is_confirmed = true;
}

void DeviceHistory::Write(const Live& live) {
  const RecordedAllocation& block = live.block;
  recording_.allocator.blocks.push_back(block);
  RecordedMemory memory{.time_ns = block.allocated_ns,
                        .bytes = block.block_bytes,
                        .on_device = true,
                        .device = device_,
                        .unit = block.unit};
  recording_.memory.push_back(memory);
  if (block.state != State::kFreed) return;
  memory.time_ns = block.free_requested_ns;
  memory.held_ns = block.free_completed_ns - block.free_requested_ns;
  memory.bytes = -block.block_bytes;
  recording_.memory.push_back(memory);
}

void DeviceHistory::Finish(int64_t end_ns, int64_t reserved_bytes, bool has_segments) {
  std::vector<Live> left;
  for (auto& [address, live] : live_) left.push_back(std::move(live));
  live_.clear();
  std::sort(left.begin(), left.end(), [](const Live& a, const Live& b) {
    return std::pair(a.block.allocated_ns, a.block.address) <
           std::pair(b.block.allocated_ns, b.block.address);
  });
  for (Live& live : left) {
    if (has_segments && !live.is_confirmed) {
      Miss("blocks that are in use by their events, and in no segment");
    }
    live.block.state = live.is_free_requested ? State::kInUse : State::kHeld;
    if (!live.is_free_requested) live.block.free_requested_ns = end_ns;
    live.block.free_completed_ns = end_ns;
    Write(live);
  }
  if (!has_segments) return;
  const int64_t old_bytes =
      std::clamp<int64_t>(reserved_bytes, 0, kMostSumBytes) - reserved_change_;
  if (old_bytes < 0) Miss("segments that came by their events, and are not there in the end");
  if (old_bytes > 0) recording_.allocator.segments.push_back({begin_ns_, 0, old_bytes, device_});
}

}  // namespace shardscope::imports
