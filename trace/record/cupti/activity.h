// CUPTI's activity records as plain values: no CUPTI header, so that joining, tests and
// fixtures need none. decode.h makes them from CUPTI's buffers.
//
// All times are CLOCK_MONOTONIC nanoseconds (the session registers that clock with CUPTI). A start
// and end of 0 means that CUPTI lost the times; an end of 0 with a start, that the work had not
// finished when the last flush was forced.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/base/words.h"

namespace shardscope::cupti {

// A stream or an event is unique within its context only.
struct StreamId {
  uint32_t context = 0;
  uint32_t stream = 0;
  auto operator<=>(const StreamId&) const = default;
};

using words::ChannelKind;

// A hardware queue: streams that share one wait for each other.
struct Channel {
  uint32_t id = 0;
  ChannelKind kind = ChannelKind::kUnknown;
};

struct Kernel {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t device = 0;
  StreamId stream;
  uint32_t correlation = 0;
  int32_t name = 0;  // of the decoder's names
  std::array<int32_t, 3> grid = {};
  std::array<int32_t, 3> block = {};
  int32_t registers = 0;                // per thread
  std::array<int32_t, 3> cluster = {};  // blocks; 0: not launched in clusters
  int32_t static_shared_memory = 0;     // bytes per block, as the next
  int32_t dynamic_shared_memory = 0;
  uint32_t graph = 0;  // 0: no graph launched it
  uint64_t graph_node = 0;
  Channel channel;
};

enum class CopyKind : uint8_t {
  kOther,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeer,
  kSet
};

// A memcpy or a memset.
struct Copy {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t bytes = 0;
  CopyKind kind = CopyKind::kOther;
  uint32_t device = 0;
  StreamId stream;
  uint32_t correlation = 0;
  uint32_t runtime_correlation = 0;  // of the runtime call, if `correlation` is the driver's; or 0
  Channel channel;
};

// A call into the CUDA runtime or driver, on the thread that made it.
struct ApiCall {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t callback = 0;  // cbid of the runtime or driver API
  bool driver = false;
  uint32_t thread = 0;  // gettid
  uint32_t correlation = 0;
  uint32_t result = 0;  // 0: success
  int32_t name = 0;     // of the decoder's names
  // One kernel will follow: its record is missing as long as it has not come.
  bool launches = false;
};

enum class WaitKind : uint8_t { kOther, kEvent, kStreamWaitsForEvent, kStream, kContext };

// A synchronisation: the host waits (kEvent, kStream, kContext), or a stream waits for an event.
struct Wait {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  WaitKind kind = WaitKind::kOther;
  StreamId stream;
  uint32_t correlation = 0;
  // Of the one recording of an event that is waited for: unlike the event, it is never used again.
  // kNoRecording: none.
  uint64_t recording = 0;
};
inline constexpr uint64_t kNoRecording = ~uint64_t{0};

// An event was recorded on a stream.
struct EventRecord {
  StreamId stream;
  uint32_t correlation = 0;
  uint64_t recording = 0;
  int64_t time_ns = 0;  // on the device; 0 if not known
};

enum class MemoryKind : uint8_t { kOther, kDevice, kManaged, kPinned, kPageable };

// An allocation (bytes > 0) or release (bytes < 0) at driver level.
struct MemoryOperation {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  uint64_t address = 0;
  MemoryKind kind = MemoryKind::kOther;
  uint32_t device = 0;
  uint32_t correlation = 0;
};

// Time that the tracer or the driver took for itself.
struct Overhead {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int32_t name = 0;  // of the decoder's names: what kind
};

struct StreamInfo {
  StreamId stream;
  int32_t priority = 0;
};

// 32-bit correlation ids count up and wrap: `a` came before `b` if the shorter way leads forward.
inline bool Precedes(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

// What some buffers held. Within a kind, in the order of the buffers, which is no order of time.
struct Batch {
  std::vector<Kernel> kernels;
  std::vector<Copy> copies;
  std::vector<ApiCall> calls;
  std::vector<Wait> waits;
  std::vector<EventRecord> event_records;
  std::vector<MemoryOperation> memory;
  std::vector<Overhead> overheads;
  std::vector<StreamInfo> streams;
};

// Which host thread issued which op when; GPU work is joined to ops by it.
//
// An interval in which one thread issued work of one op. Intervals of a thread may nest, but not
// cross: a transport whose last rank enqueues for all logs one for each other rank inside that
// rank's own.
struct HostOp {
  int64_t key = 0;      // the caller's name for the op run; not kNoOp
  uint32_t thread = 0;  // gettid
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

}  // namespace shardscope::cupti
