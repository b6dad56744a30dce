#include "trace/import/memory_snapshot/memory_snapshot.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/trace_keys.h"
#include "trace/import/memory_snapshot/annotations.h"
#include "trace/import/memory_snapshot/history.h"
#include "trace/import/pickle/document_file.h"
#include "trace/import/pickle/stacks.h"

namespace shardscope::imports {
namespace {

constexpr size_t kMostSnapshotDevices = 1024;
constexpr size_t kLongestContext = 1024;

struct ActionName {
  std::string_view name;
  AllocatorAction action;
};
constexpr std::array<ActionName, 9> kActions = {{
    {"alloc", AllocatorAction::kAlloc},
    {"free_requested", AllocatorAction::kFreeRequested},
    {"free_completed", AllocatorAction::kFreeCompleted},
    {"segment_alloc", AllocatorAction::kSegmentGained},
    {"segment_map", AllocatorAction::kSegmentGained},
    {"segment_free", AllocatorAction::kSegmentGiven},
    {"segment_unmap", AllocatorAction::kSegmentGiven},
    {"oom", AllocatorAction::kOutOfMemory},
    {"snapshot", AllocatorAction::kNothing},
}};

// A device's segments.
struct Held {
  std::vector<SnapshotBlock> blocks;
  int64_t reserved_bytes = 0;
};

class SnapshotReader {
 public:
  SnapshotReader(const Document& document, const std::string& title)
      : document_(document),
        unknown_(&recording_.not_understood),
        stacks_(&document, &recording_.names, &unknown_) {
    recording_.title = title;
    recording_.has_unmarked_step = false;
  }

  // `written_ns`: when the file was written; the time of a snapshot that tells none.
  Recording Take(int64_t written_ns);

 private:
  void TakeSegments(const Value& segments);
  void TakeSegment(const Value& segment);
  void TakeBlocks(const Value& blocks, int64_t address, int64_t stream, Held* held);
  void TakeOldBlock(const Value& history, SnapshotBlock* block);
  void TakeSettings(const Value& settings, const std::string& prefix);
  // The events of one device; those without a sensible time are counted.
  std::vector<SnapshotEvent> EventsOf(const Value& trace);
  SnapshotEvent TakeEvent(const Value& event, std::optional<int64_t>* time_ns);
  void Replay(Annotations* annotations, int64_t written_ns);
  void AddReserved(uint32_t track);
  // false: this list was there before, as some other device's or segment's.
  bool IsNew(const Value& list) { return seen_.insert(list.container()).second; }
  void Miss(const char* what) { ++recording_.not_understood[what]; }

  const Document& document_;
  Recording recording_;
  UnknownFields unknown_;
  Stacks stacks_;
  std::set<uint32_t> seen_;
  std::map<int32_t, Held> held_;
  std::vector<std::vector<SnapshotEvent>> events_;  // by device
};

void SnapshotReader::TakeSegments(const Value& segments) {
  for (const Value& segment : document_.Items(segments)) {
    if (segment.kind() == ValueKind::kDict && IsNew(segment)) {
      TakeSegment(segment);
    } else {
      Miss("segments that are no record, or stand twice");
    }
  }
}

void SnapshotReader::TakeSegment(const Value& segment) {
  static const std::set<std::string_view> kKnown = {"device",        "address",
                                                    "total_size",    "stream",
                                                    "blocks",        "allocated_size",
                                                    "active_size",   "requested_size",
                                                    "segment_type",  "frames",
                                                    "is_expandable", "segment_pool_id",
                                                    "pool_id",       "registration_counter"};
  for (const auto& [name, field] : document_.FieldsOf(segment)) {
    if (!kKnown.contains(name.text())) unknown_.Count("a segment", name);
  }
  const int64_t device = document_.Whole(segment, "device").value_or(0);
  if (device < 0 || device >= static_cast<int64_t>(kMostSnapshotDevices)) {
    return Miss("segments of a device that cannot be");
  }
  Held& held = held_[static_cast<int32_t>(device)];
  constexpr int64_t kMost = int64_t{1} << 46;
  const int64_t bytes = document_.Whole(segment, "total_size").value_or(0);
  held.reserved_bytes = std::min(held.reserved_bytes + std::clamp<int64_t>(bytes, 0, kMost), kMost);
  const Value* const blocks = document_.Find(segment, "blocks");
  if (blocks == nullptr || !blocks->is_container()) return;
  if (!IsNew(*blocks)) return Miss("blocks that stand in two segments");
  TakeBlocks(*blocks, document_.Whole(segment, "address").value_or(0),
             document_.Whole(segment, "stream").value_or(0), &held);
}

// Files of PyTorch before 2.1 tell neither where a block lies nor what was asked for: blocks follow
// one another, and the newest entry of their history has the rest.
void SnapshotReader::TakeOldBlock(const Value& history, SnapshotBlock* block) {
  const std::span<const Value> entries = document_.Items(history);
  if (entries.empty() || history.kind() == ValueKind::kDict) return;
  block->requested_bytes = document_.Whole(entries[0], "real_size").value_or(-1);
  if (const Value* const frames = document_.Find(entries[0], "frames")) {
    block->stack = stacks_.Take(*frames);
  }
}

void SnapshotReader::TakeBlocks(const Value& blocks, int64_t address, int64_t stream, Held* held) {
  for (const Value& value : document_.Items(blocks)) {
    SnapshotBlock block;
    block.address = address;
    block.stream = stream;
    std::string_view state;
    for (const auto& [name, field] : document_.FieldsOf(value)) {
      const std::string_view key = name.text();
      if (key == "address") {
        block.address = field.whole().value_or(address);
      } else if (key == "size") {
        block.bytes = field.whole().value_or(0);
      } else if (key == "requested_size") {
        block.requested_bytes = field.whole().value_or(-1);
      } else if (key == "state") {
        state = field.text();
      } else if (key == "frames") {
        block.stack = stacks_.Take(field);
      } else if (key == "history") {
        TakeOldBlock(field, &block);
      } else {
        unknown_.Count("a block", name);
      }
    }
    if (__builtin_add_overflow(block.address, std::max<int64_t>(block.bytes, 0), &address)) {
      address = block.address;
    }
    block.is_pending_free = state == "active_pending_free" || state == "active_awaiting_free";
    if (state == "active_allocated" || block.is_pending_free) {
      held->blocks.push_back(block);
    } else if (state != "inactive") {
      Miss("blocks in a state that is not known");
    }
  }
}

// As text, under the key "allocator.NAME" of the run's configuration.
void SnapshotReader::TakeSettings(const Value& settings, const std::string& prefix) {
  constexpr size_t kMostSettings = 100;
  size_t taken = 0;
  for (const auto& [name, value] : document_.FieldsOf(settings)) {
    if (taken++ == kMostSettings) return;
    const std::string key = prefix + Describe(name);
    if (value.kind() == ValueKind::kDict && prefix == "allocator.") {
      TakeSettings(value, key + ".");
    } else {
      recording_.meta[key] = Describe(value);
    }
  }
}

SnapshotEvent SnapshotReader::TakeEvent(const Value& event, std::optional<int64_t>* time_ns) {
  SnapshotEvent taken;
  std::string_view action;
  std::string context;
  for (const auto& [name, field] : document_.FieldsOf(event)) {
    const std::string_view key = name.text();
    if (key == "action") {
      action = field.text();
    } else if (key == "addr") {
      taken.address = field.whole().value_or(0);
    } else if (key == "device_free") {
      taken.free_bytes = field.whole().value_or(-1);
    } else if (key == "size") {
      taken.bytes = field.whole().value_or(0);
    } else if (key == "stream") {
      taken.stream = field.whole().value_or(0);
    } else if (key == "time_us") {
      *time_ns = NsOfUs(field.whole());
    } else if (key == "frames") {
      taken.stack = stacks_.Take(field);
    } else if (key == "compile_context" || key == "user_metadata") {
      const bool says_nothing = field.text().empty() || field.text() == "N/A";
      if (field.is_none() || (field.is_text() && says_nothing)) continue;
      const std::string text =
          field.is_text() ? Printable(field.text().substr(0, kLongestContext)) : Describe(field);
      context += fmt::format("{}{}: {}", context.empty() ? "" : "; ", key, text);
    } else if (key != "device" && key != "segment_pool_id" && key != "pool_id") {
      unknown_.Count("an event", name);
    }
  }
  taken.context = context.empty() ? 0 : recording_.names.Add(context);
  const auto known = std::find_if(kActions.begin(), kActions.end(),
                                  [&](const ActionName& one) { return one.name == action; });
  if (known != kActions.end()) {
    taken.action = known->action;
  } else {
    Miss("events with an action that is not known");
  }
  return taken;
}

// Where a time is missing, that of the event before: files of some versions have none.
std::vector<SnapshotEvent> SnapshotReader::EventsOf(const Value& trace) {
  std::vector<SnapshotEvent> events;
  const std::span<const Value> list = document_.Items(trace);
  if (!list.empty() && !IsNew(trace)) {
    Miss("lists of events that stand twice");
    return events;
  }
  events.reserve(list.size());
  for (const Value& value : list) {
    std::optional<int64_t> time_ns;
    SnapshotEvent event = TakeEvent(value, &time_ns);
    if (!time_ns) Miss("events without a sensible time: taken for as late as those before them");
    event.time_ns = time_ns.value_or(events.empty() ? -1 : events.back().time_ns);
    events.push_back(event);
  }
  // In front of the first time there is none before.
  const auto first = std::find_if(events.begin(), events.end(),
                                  [](const SnapshotEvent& event) { return event.time_ns >= 0; });
  for (auto event = events.begin(); event != first && first != events.end(); ++event) {
    event->time_ns = first->time_ns;
  }
  return events;
}

void SnapshotReader::AddReserved(uint32_t track) {
  std::vector<RecordedSegment>& segments = recording_.allocator.segments;
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  const Names::Index name = recording_.names.Add(trace_keys::kReservedBytes);
  int64_t bytes = 0;
  for (const RecordedSegment& segment : segments) {
    bytes = std::clamp<int64_t>(bytes + segment.bytes, 0, int64_t{1} << 47);
    recording_.counters.push_back({segment.time_ns, static_cast<double>(bytes), name, track});
  }
}

void SnapshotReader::Replay(Annotations* annotations, int64_t written_ns) {
  std::optional<int64_t> first_ns = annotations->first_ns();
  std::optional<int64_t> last_ns = annotations->last_ns();
  for (const std::vector<SnapshotEvent>& events : events_) {
    if (events.empty() || events.front().time_ns < 0) continue;
    first_ns = std::min(first_ns.value_or(events.front().time_ns), events.front().time_ns);
    for (const SnapshotEvent& event : events) {
      last_ns = std::max(last_ns.value_or(event.time_ns), event.time_ns);
    }
  }
  const int64_t begin_ns = first_ns.value_or(written_ns);
  const int64_t end_ns = std::max(last_ns.value_or(written_ns), begin_ns);
  const auto track = static_cast<uint32_t>(recording_.tracks.size());
  recording_.tracks.push_back(
      {.kind = TrackKind::kThread, .thread = -1, .name = "allocator of GPU memory"});
  std::set<int32_t> devices;
  for (const auto& [device, held] : held_) devices.insert(device);
  for (size_t at = 0; at < events_.size(); ++at) {
    if (!events_[at].empty()) devices.insert(static_cast<int32_t>(at));
  }
  for (const int32_t device : devices) {
    const auto at = static_cast<size_t>(device);
    static const std::vector<SnapshotEvent> kNone;
    const std::vector<SnapshotEvent>& events = at < events_.size() ? events_[at] : kNone;
    const bool has_times = !events.empty() && events.front().time_ns >= 0;
    DeviceHistory history(device, track, has_times ? events.front().time_ns : begin_ns, annotations,
                          &recording_);
    for (SnapshotEvent event : events) {
      if (!has_times) event.time_ns = begin_ns;
      history.Take(event);
    }
    const auto held = held_.find(device);
    if (held != held_.end()) {
      for (const SnapshotBlock& block : held->second.blocks) history.Hold(block);
    }
    history.Finish(end_ns, held == held_.end() ? 0 : held->second.reserved_bytes,
                   document_.Find(document_.root(), "segments") != nullptr);
  }
  AddReserved(track);
}

Recording SnapshotReader::Take(int64_t written_ns) {
  const Value& root = document_.root();
  const Value* annotations = nullptr;
  for (const auto& [name, value] : document_.FieldsOf(root)) {
    const std::string_view key = name.text();
    if (key == "segments" && value.is_container()) {
      TakeSegments(value);
    } else if (key == "device_traces" && value.is_container()) {
      for (const Value& trace : document_.Items(value)) {
        if (events_.size() < kMostSnapshotDevices) events_.push_back(EventsOf(trace));
      }
    } else if (key == "allocator_settings") {
      TakeSettings(value, "allocator.");
    } else if (key == "external_annotations" && value.is_container()) {
      annotations = &value;
    } else {
      unknown_.Count("the snapshot", name);
    }
  }
  Annotations ranges(document_, annotations, &unknown_, &recording_);
  Replay(&ranges, written_ns);
  recording_.device = "GPU";
  return std::move(recording_);
}

int64_t WrittenNs(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0 || facts.st_mtim.tv_sec < 0 ||
      facts.st_mtim.tv_sec > (int64_t{1} << 31)) {
    return 0;
  }
  return int64_t{facts.st_mtim.tv_sec} * kNsPerSecond + facts.st_mtim.tv_nsec;
}

}  // namespace

Status ReadMemorySnapshot(const Input& input, const ReadProgress& progress,
                          const TakeRecording& take) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Document document, ReadDocument(input, progress));
  return take(SnapshotReader(document, input.Title()).Take(WrittenNs(input.path)));
}

}  // namespace shardscope::imports
