// limit: the signatures with eight parameters are NCCL's
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "trace/base/reasons.h"
#include "trace/base/time.h"
#include "trace/base/words.h"
#include "trace/record/inject/guarded.h"
#include "trace/record/inject/hooks.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr nccl::Result kSuccess = 0;
constexpr size_t kMaxOpenEvents = 1 << 12;

struct Communicator {
  std::string hash;
  int rank = 0;
  int num_ranks = 0;
  schema::TrackId track;
  schema::StringId sequence_name;
  int* mask = nullptr;  // NCCL's own, one for the process
};

// An event between start and stop. NCCL may name an event after it stopped (as a parent), so
// handles are numbers, never pointers: a number that was given up is not mistaken for another.
struct OpenEvent {
  std::atomic<uint64_t> number = 0;  // 0: free; kBusy: a thread reads or writes the rest
  const Communicator* communicator = nullptr;
  uint64_t type = 0;
  record::NcclRecord record;  // for a kernel launch only its span
};
constexpr uint64_t kBusy = ~uint64_t{0};
std::array<OpenEvent, kMaxOpenEvents> open_events;
std::atomic<uint64_t> last_number = 0;

// The launches of one thread. NCCL starts and stops the collectives of a group around the launch of
// their kernel or right after it, on the thread that launches.
struct ThreadLaunch {
  const Communicator* communicator = nullptr;  // of the last launch
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool used = false;  // by a collective
  int open = 0;       // collectives between start and stop
};
thread_local ThreadLaunch thread_launch;

// Bytes of an element, by NCCL's name of its type; 0: not known.
int64_t BytesOf(std::string_view datatype) {
  static constexpr std::array<std::pair<std::string_view, int64_t>, 14> kTypes = {{
      {"ncclInt8", 1},
      {"ncclUint8", 1},
      {"ncclFloat8e4m3", 1},
      {"ncclFloat8e5m2", 1},
      {"ncclFloat16", 2},
      {"ncclBfloat16", 2},
      {"ncclInt32", 4},
      {"ncclUint32", 4},
      {"ncclFloat32", 4},
      {"ncclFloat", 4},
      {"ncclInt64", 8},
      {"ncclUint64", 8},
      {"ncclFloat64", 8},
      {"ncclDouble", 8},
  }};
  for (const auto& [name, bytes] : kTypes) {
    if (name == datatype) return bytes;
  }
  return 0;
}

void* Open(ProcessRecording& recording, const Communicator* communicator, uint64_t type,
           const record::NcclRecord& record) {
  const uint64_t number = ++last_number;
  OpenEvent& event = open_events[number % kMaxOpenEvents];
  uint64_t held = event.number.load(std::memory_order_relaxed);
  const bool claimed =
      held != kBusy && event.number.compare_exchange_strong(held, kBusy, std::memory_order_acquire);
  if (!claimed || held != 0) recording.CountLost("nccl", reasons::kNcclEvents, 1);
  if (!claimed) return nullptr;
  event.communicator = communicator;
  event.type = type;
  event.record = record;
  event.record.span.track = communicator->track;
  event.record.span.start_ns = MonotonicNs();
  event.number.store(number, std::memory_order_release);
  return reinterpret_cast<void*>(number);
}

std::string_view TextOrMark(const char* text) { return text == nullptr ? "?" : text; }

std::string NameOf(const nccl::Coll& coll) {
  return fmt::format("{} {} {} {} {}", TextOrMark(coll.function), coll.count,
                     TextOrMark(coll.datatype), TextOrMark(coll.algorithm),
                     TextOrMark(coll.protocol));
}

std::string NameOf(const nccl::P2p& p2p) {
  return fmt::format("{} {} {} peer {}", TextOrMark(p2p.function), p2p.count,
                     TextOrMark(p2p.datatype), p2p.peer);
}

void SetElements(size_t count, const char* datatype, schema::NcclOperationRow* row) {
  row->count = static_cast<int64_t>(count);
  row->dtype = TextOrMark(datatype);
  const int64_t bytes = BytesOf(TextOrMark(datatype));
  row->bytes = bytes == 0 || count > size_t{1} << 56 ? -1 : row->count * bytes;
}

record::NcclRecord RecordOf(const Communicator& communicator) {
  record::NcclRecord record;
  record.operation.communicator = communicator.hash;
  record.operation.communicator_rank = communicator.rank;
  record.operation.group_size = communicator.num_ranks;
  record.operation.sequence = -1;
  return record;
}

record::NcclRecord RecordOf(const Communicator& communicator, const nccl::Coll& coll) {
  record::NcclRecord record = RecordOf(communicator);
  schema::NcclOperationRow& row = record.operation;
  row.function = TextOrMark(coll.function);
  row.sequence = static_cast<int64_t>(coll.sequence);
  SetElements(coll.count, coll.datatype, &row);
  row.peer = coll.root;
  row.algorithm = TextOrMark(coll.algorithm);
  row.protocol = TextOrMark(coll.protocol);
  row.channels = coll.num_channels;
  return record;
}

record::NcclRecord RecordOf(const Communicator& communicator, const nccl::P2p& p2p) {
  record::NcclRecord record = RecordOf(communicator);
  schema::NcclOperationRow& row = record.operation;
  row.function = TextOrMark(p2p.function);
  SetElements(p2p.count, p2p.datatype, &row);
  row.peer = p2p.peer;
  row.channels = p2p.num_channels;
  return record;
}

// An operation starts: a launch that others have used, none of them being open, is not its own.
void BeginOperation() {
  if (thread_launch.open == 0 && thread_launch.used) thread_launch = {};
  ++thread_launch.open;
}

void EndOperation(const Communicator* communicator, ProcessRecording& recording,
                  record::NcclRecord* record) {
  ThreadLaunch& launch = thread_launch;
  launch.open = std::max(0, launch.open - 1);
  schema::NcclOperationRow& row = record->operation;
  row.launch_track = schema::TrackId::None();
  row.launch_start_ns = record->span.start_ns;
  if (launch.communicator != communicator || launch.end_ns == 0) return;
  launch.used = true;
  row.launch_track = recording.ThreadTrack();
  row.launch_start_ns = launch.start_ns;
  row.launch_duration_ns = launch.end_ns - launch.start_ns;
}

nccl::Result Start(void* context, void** event, uint64_t type,
                   const nccl::EventDescription& description) {
  *event = nullptr;
  const auto* communicator = static_cast<const Communicator*>(context);
  ProcessRecording* recording = ProcessRecording::Taking();
  if (communicator == nullptr) return kSuccess;
  if (recording == nullptr || !recording->TakesAt(MonotonicNs())) {
    __atomic_store_n(communicator->mask, 0, __ATOMIC_RELAXED);  // NCCL asks no more
    return kSuccess;
  }
  const schema::TrackId track = communicator->track;
  if (type == nccl::kColl) {
    record::NcclRecord record = RecordOf(*communicator, description.coll);
    record.span.name_string = recording->Name(NameOf(description.coll));
    BeginOperation();
    *event = Open(*recording, communicator, type, record);
    recording->Counter(track, MonotonicNs(), communicator->sequence_name,
                       static_cast<double>(description.coll.sequence));
  } else if (type == nccl::kP2p) {
    record::NcclRecord record = RecordOf(*communicator, description.p2p);
    record.span.name_string = recording->Name(NameOf(description.p2p));
    BeginOperation();
    *event = Open(*recording, communicator, type, record);
  } else if (type == nccl::kKernelLaunch) {
    record::NcclRecord record;
    record.span.name_string = recording->Name("kernel launch");
    *event = Open(*recording, communicator, type, record);
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
    const int64_t end_ns = MonotonicNs();
    const schema::SpanRow& span = event.record.span;
    if (event.type == nccl::kKernelLaunch) {
      thread_launch = {event.communicator, span.start_ns, end_ns, false, thread_launch.open};
      recording->Span(span.track, span.start_ns, end_ns, span.name_string,
                      words::SpanCategory::kHost);
    } else {
      EndOperation(event.communicator, *recording, &event.record);
      recording->Nccl(event.record, end_ns);
    }
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
  if (recording == nullptr || !recording->TakesAt(MonotonicNs())) return kSuccess;
  recording->SourceOn("nccl");
  std::string title = fmt::format("NCCL {:x}", id);
  if (name != nullptr && *name != '\0') title += fmt::format(" {}", name);
  auto communicator = std::make_unique<Communicator>();
  communicator->hash = fmt::format("{:x}", id);
  communicator->rank = rank;
  communicator->num_ranks = num_ranks;
  communicator->track = recording->AddTrack(fmt::format("{} rank {} of {}", title, rank, num_ranks),
                                            words::TrackRole::kHost);
  communicator->sequence_name = recording->Name("sequence");
  communicator->mask = mask;
  *context = communicator.release();
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

const nccl::PluginV5 kNcclPluginV5 = {"shardscope",          &Hook<&InitV5>::Call,
                                      &Hook<&StartV5>::Call, &Hook<&Stop>::Call,
                                      &IgnoreState,          &Hook<&Finalize>::Call};
const nccl::PluginV4 kNcclPluginV4 = {"shardscope",          &Hook<&InitV4>::Call,
                                      &Hook<&StartV4>::Call, &Hook<&Stop>::Call,
                                      &IgnoreState,          &Hook<&Finalize>::Call};

}  // namespace shardscope::inject
