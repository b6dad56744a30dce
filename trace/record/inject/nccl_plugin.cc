// limit: the signatures with eight parameters are NCCL's
#include "trace/record/inject/nccl_plugin.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>

#include "trace/base/time.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr nccl::Result kSuccess = 0;
constexpr size_t kMaxOpenEvents = 1 << 12;

struct Communicator {
  int64_t track = 0;
  int64_t sequence_name = 0;
  int* mask = nullptr;  // NCCL's own, one for the process
};

// An event between start and stop. NCCL may name an event after it stopped (as a parent), so
// handles are numbers, never pointers: a number that was given up is not mistaken for another.
struct OpenEvent {
  std::atomic<uint64_t> number = 0;  // 0: free; kBusy: a thread reads or writes the rest
  int64_t track = 0;
  int64_t start_ns = 0;
  int64_t name = 0;
};
constexpr uint64_t kBusy = ~uint64_t{0};
std::array<OpenEvent, kMaxOpenEvents> open_events;
std::atomic<uint64_t> last_number = 0;

void* Open(ProcessRecording& recording, int64_t track, int64_t name) {
  const uint64_t number = ++last_number;
  OpenEvent& event = open_events[number % kMaxOpenEvents];
  uint64_t held = event.number.load(std::memory_order_relaxed);
  const bool claimed =
      held != kBusy && event.number.compare_exchange_strong(held, kBusy, std::memory_order_acquire);
  if (!claimed || held != 0) recording.CountLost("nccl", "events: more were open than fit", 1);
  if (!claimed) return nullptr;
  event.track = track;
  event.name = name;
  event.start_ns = MonotonicNs();
  event.number.store(number, std::memory_order_release);
  return reinterpret_cast<void*>(number);
}

std::string_view Text(const char* text) { return text == nullptr ? "?" : text; }

std::string NameOf(const nccl::Coll& coll) {
  return fmt::format("{} {} {} {} {}", Text(coll.function), coll.count, Text(coll.datatype),
                     Text(coll.algorithm), Text(coll.protocol));
}

std::string NameOf(const nccl::P2p& p2p) {
  return fmt::format("{} {} {} peer {}", Text(p2p.function), p2p.count, Text(p2p.datatype),
                     p2p.peer);
}

nccl::Result Start(void* context, void** event, uint64_t type,
                   const nccl::EventDescription& description) {
  *event = nullptr;
  const auto* communicator = static_cast<const Communicator*>(context);
  ProcessRecording* recording = ProcessRecording::Active();
  if (communicator == nullptr) return kSuccess;
  if (recording == nullptr || recording->IsOver()) {
    __atomic_store_n(communicator->mask, 0, __ATOMIC_RELAXED);  // NCCL asks no more
    return kSuccess;
  }
  const int64_t track = communicator->track;
  if (type == nccl::kColl) {
    *event = Open(*recording, track, recording->Name(NameOf(description.coll)));
    recording->Counter(track, MonotonicNs(), communicator->sequence_name,
                       static_cast<double>(description.coll.sequence));
  } else if (type == nccl::kP2p) {
    *event = Open(*recording, track, recording->Name(NameOf(description.p2p)));
  } else if (type == nccl::kKernelLaunch) {
    *event = Open(*recording, track, recording->Name("kernel launch"));
  }
  return kSuccess;
}

nccl::Result StartV5(void* context, void** event, const nccl::EventDescription* description) {
  return Start(context, event, description->type, *description);
}

nccl::Result StartV4(void* context, void** event, const nccl::EventDescription* description) {
  return Start(context, event, description->type & 0xFF, *description);
}

nccl::Result Stop(void* handle) {
  const auto number = reinterpret_cast<uint64_t>(handle);
  if (number == 0) return kSuccess;
  OpenEvent& event = open_events[number % kMaxOpenEvents];
  uint64_t expected = number;
  if (!event.number.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) {
    return kSuccess;  // counted as lost
  }
  ProcessRecording* recording = ProcessRecording::Active();
  if (recording != nullptr) {
    recording->Span(event.track, event.start_ns, MonotonicNs(), event.name, "host");
  }
  event.number.store(0, std::memory_order_release);
  return kSuccess;
}

nccl::Result IgnoreState(void* /*event*/, int /*state*/, void* /*arguments*/) { return kSuccess; }

nccl::Result Finalize(void* context) {
  delete static_cast<Communicator*>(context);
  return kSuccess;
}

nccl::Result Init(void** context, uint64_t id, int* mask, const char* name, int num_ranks, int rank,
                  uint64_t wanted) {
  *context = nullptr;
  ProcessRecording* recording = ProcessRecording::Open();
  if (recording == nullptr || recording->IsOver()) return kSuccess;
  recording->SourceOn("nccl");
  std::string title = fmt::format("NCCL {:x}", id);
  if (name != nullptr && *name != '\0') title += fmt::format(" {}", name);
  auto* communicator = new Communicator;
  communicator->track =
      recording->AddTrack(fmt::format("{} rank {} of {}", title, rank, num_ranks), "host");
  communicator->sequence_name = recording->Name("sequence");
  communicator->mask = mask;
  *context = communicator;
  __atomic_fetch_or(mask, static_cast<int>(wanted), __ATOMIC_RELAXED);
  return kSuccess;
}

nccl::Result InitV5(void** context, uint64_t id, int* mask, const char* name, int /*num_nodes*/,
                    int num_ranks, int rank, nccl::Logger /*log*/) {
  return Init(context, id, mask, name, num_ranks, rank,
              nccl::kColl | nccl::kP2p | nccl::kKernelLaunch);
}

nccl::Result InitV4(void** context, int* mask, const char* name, uint64_t id, int /*num_nodes*/,
                    int num_ranks, int rank, nccl::Logger /*log*/) {
  return Init(context, id, mask, name, num_ranks, rank, nccl::kColl | nccl::kP2p);
}

}  // namespace

const nccl::PluginV5 kNcclPluginV5 = {"shardscope", &InitV5,      &StartV5,
                                      &Stop,        &IgnoreState, &Finalize};
const nccl::PluginV4 kNcclPluginV4 = {"shardscope", &InitV4,      &StartV4,
                                      &Stop,        &IgnoreState, &Finalize};

}  // namespace shardscope::inject
