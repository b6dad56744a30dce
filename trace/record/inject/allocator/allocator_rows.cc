#include "trace/record/inject/allocator/allocator_rows.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/base/reasons.h"
#include "trace/base/trace_keys.h"
#include "trace/base/units.h"
#include "trace/base/words.h"
#include "trace/record/inject/process_recording.h"
#include "trace/record/memory_account.h"

namespace shardscope::inject {
namespace {

using words::kUnattributed;

std::string_view Text(const char* text) { return text == nullptr ? "" : text; }

class Target final : public AllocatorTarget {
 public:
  explicit Target(ProcessRecording* recording) : recording_(recording) {}
  record::Recorder& recorder() override { return recording_->recorder(); }
  int64_t rank() const override { return recording_->rank(); }
  schema::StringId Name(std::string_view text) override { return recording_->Name(text); }
  schema::TrackId ThreadTrack() override { return recording_->ThreadTrack(); }
  schema::TrackId CounterTrack() override {
    return recording_->AddTrack("memory", words::TrackRole::kHost);
  }

 private:
  ProcessRecording* const recording_;
};

struct Allocator {
  explicit Allocator(ProcessRecording* to) : target(to), rows(&target) {}
  Target target;
  AllocatorRows rows;
};
// Set once, never destroyed: events may come until the process is gone.
std::atomic<Allocator*> allocator = nullptr;

void FinishRows(ProcessRecording& recording) {
  Allocator* const one = allocator.load();
  if (one == nullptr) return;  // the process ends just as the first event comes
  one->rows.Finish(recording.EndNs());
  recording.CountLost(trace_keys::kMemorySource, reasons::kAllocatorGaps, one->rows.unexplained());
}

}  // namespace

AllocatorRows::Device& AllocatorRows::DeviceOf(const ShardscopeAllocatorEvent& event) {
  const auto [entry, is_new] = devices_.try_emplace(event.device);
  if (is_new) entry->second.name = fmt::format("GPU {}", event.device);
  return entry->second;
}

void AllocatorRows::Add(const ShardscopeAllocatorEvent& event) {
  const MutexLock lock(mutex_);
  if (is_finished_) return;
  Device& device = DeviceOf(event);
  Settle(event, &device);
  const bool tells_reserved = event.action != kShardscopeAttached &&
                              event.action != kShardscopeSegmentGained &&
                              event.action != kShardscopeSegmentGiven;
  if (tells_reserved && event.reserved_bytes != device.reserved_bytes) {
    Reserve(event.reserved_bytes - device.reserved_bytes, event, &device);
  }
  switch (event.action) {
    case kShardscopeAttached:
      device.old_bytes = event.active_bytes;
      return;
    case kShardscopeAlloc:
      return Begin(event, &device);
    case kShardscopeFreeRequested:
      if (const auto block = device.blocks.find(event.address); block != device.blocks.end()) {
        block->second.row.free_requested_ns = event.time_ns;
      }
      return;
    case kShardscopeFreeCompleted:
      return End(event, &device);
    case kShardscopeSegmentGained:
      return Reserve(event.bytes, event, &device);
    case kShardscopeSegmentGiven:
      return Reserve(-event.bytes, event, &device);
    case kShardscopeOutOfMemory:
      return WriteOutOfMemory(event);
    default:
      return;
  }
}

// What happened up to now is in the allocator's sum; see the note in the header.
void AllocatorRows::Settle(const ShardscopeAllocatorEvent& event, Device* device) {
  if (device->unsettled) {
    const int64_t asked_bytes = device->blocks.at(*device->unsettled).row.requested_bytes;
    const int64_t bytes = event.active_bytes - device->active_bytes;
    SettleBlock(bytes >= asked_bytes ? bytes : asked_bytes, device);
  }
  const int64_t rest_bytes = event.active_bytes - device->active_bytes;
  if (rest_bytes == 0) return;
  const bool is_old_free = rest_bytes < 0 && -rest_bytes <= device->old_bytes;
  if (is_old_free) device->old_bytes += rest_bytes;
  if (!is_old_free && event.action != kShardscopeAttached) ++unexplained_;
  schema::AllocationRow of_no_block;
  of_no_block.category = kUnattributed;
  WriteMemory(*device, of_no_block, event.time_ns, event.time_ns, rest_bytes);
  device->active_bytes = event.active_bytes;
}

void AllocatorRows::SettleBlock(int64_t bytes, Device* device) {
  Block& block = device->blocks.at(*device->unsettled);
  device->unsettled.reset();
  block.bytes = bytes;
  block.row.block_bytes = bytes;
  device->active_bytes += bytes;
  WriteMemory(*device, block.row, block.row.allocated_ns, block.row.allocated_ns, bytes);
}

void AllocatorRows::Begin(const ShardscopeAllocatorEvent& event, Device* device) {
  Block& block = device->blocks[event.address];
  block = {};
  schema::AllocationRow& row = block.row;
  row.rank = target_->rank();
  row.device = event.device;
  row.stream = static_cast<int64_t>(event.stream);
  row.address = static_cast<int64_t>(event.address);
  row.requested_bytes = event.bytes;
  row.allocated_ns = event.time_ns;
  row.track = target_->ThreadTrack();
  row.range_string =
      Text(event.range).empty() ? schema::StringId::None() : target_->Name(Text(event.range));
  row.unit = Text(event.unit);
  row.phase = Text(event.phase);
  row.category = Text(event.category).empty() ? kUnattributed : Text(event.category);
  device->unsettled = event.address;
}

// A block from before the events began is in the rest that the next event finds.
void AllocatorRows::End(const ShardscopeAllocatorEvent& event, Device* device) {
  const auto found = device->blocks.find(event.address);
  if (found == device->blocks.end()) return;
  const Block block = std::move(found->second);
  device->blocks.erase(found);
  schema::AllocationRow row = block.row;
  if (row.free_requested_ns == 0) row.free_requested_ns = event.time_ns;
  row.free_completed_ns = event.time_ns;
  row.state = words::Name(words::AllocationState::kFreed);
  target_->recorder().Record(row);
  device->active_bytes -= block.bytes;
  WriteMemory(*device, row, row.free_requested_ns, row.free_completed_ns, -block.bytes);
}

void AllocatorRows::Reserve(int64_t change, const ShardscopeAllocatorEvent& event, Device* device) {
  device->reserved_bytes += change;
  if (counter_track_.is_none()) {
    counter_track_ = target_->CounterTrack();
    reserved_name_ = target_->Name(trace_keys::kReservedBytes);
  }
  int64_t bytes = 0;
  for (const auto& [number, one] : devices_) bytes += one.reserved_bytes;
  schema::CounterRow row;
  row.track = counter_track_;
  row.time_ns = event.time_ns;
  row.name_string = reserved_name_;
  row.value = static_cast<double>(bytes);
  target_->recorder().Record(row);
}

void AllocatorRows::WriteMemory(const Device& device, const schema::AllocationRow& owner,
                                int64_t issued_ns, int64_t executed_ns, int64_t bytes) {
  const record::MemoryAccount account{target_->rank(), device.name, owner.category, owner.unit};
  target_->recorder().Record(account.Event(issued_ns, executed_ns, bytes));
}

void AllocatorRows::WriteOutOfMemory(const ShardscopeAllocatorEvent& event) {
  const std::string_view range = Text(event.range);
  schema::MarkerRow row;
  row.time_ns = event.time_ns;
  row.step = -1;
  row.kind = words::Name(words::MarkerKind::kError);
  const std::string where = range.empty() ? "" : fmt::format(reasons::kAskedForIn, range);
  const std::string free =
      fmt::format(reasons::kGpuBytesFree, FormatBytes(static_cast<int64_t>(event.address)));
  row.new_value =
      fmt::format(reasons::kTorchOutOfMemory, event.device, FormatBytes(event.bytes), where + free,
                  FormatBytes(event.reserved_bytes), FormatBytes(event.active_bytes));
  target_->recorder().Add(row);
}

void AllocatorRows::Finish(int64_t end_ns) {
  const MutexLock lock(mutex_);
  if (is_finished_) return;
  is_finished_ = true;
  target_->recorder().MakeRoom();
  int64_t rows = 0;
  for (auto& [number, device] : devices_) {
    // No event followed it: what was asked for is all that is known.
    if (device.unsettled) {
      SettleBlock(device.blocks.at(*device.unsettled).row.requested_bytes, &device);
    }
    for (auto& [address, block] : device.blocks) {
      schema::AllocationRow& row = block.row;
      row.state = words::Name(row.free_requested_ns == 0 ? words::AllocationState::kHeld
                                                         : words::AllocationState::kInUse);
      if (row.free_requested_ns == 0) row.free_requested_ns = end_ns;
      row.free_completed_ns = end_ns;
      target_->recorder().Record(row);
      if (++rows % record::Recorder::kRowsBetweenRoom == 0) target_->recorder().MakeRoom();
    }
  }
}

int64_t AllocatorRows::unexplained() const {
  const MutexLock lock(mutex_);
  return unexplained_;
}

void AddAllocatorEvent(const ShardscopeAllocatorEvent& event) {
  // Null: this is a forked child, or the process ends.
  ProcessRecording* const recording = ProcessRecording::Open();
  if (recording == nullptr || event.time_ns >= recording->until_ns()) return;
  Allocator* to = allocator.load(std::memory_order_acquire);
  if (to == nullptr) {
    static std::once_flag once;
    std::call_once(once, [&] {
      auto added = std::make_unique<Allocator>(recording);
      recording->AddAtEnd(&FinishRows);
      recording->SetAllocatorSince(event.time_ns);
      allocator.store(added.release(), std::memory_order_release);
    });
    to = allocator.load(std::memory_order_acquire);
  }
  to->rows.Add(event);
}

}  // namespace shardscope::inject
