// What of NCCL's profiler plugin interface, versions 5 and 4, this plugin reads and fills: written
// from the public interface (NCCL 2.28, ext-profiler), with the layout asserted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardscope::inject::nccl {

// Kinds of events, bits of the activation mask.
inline constexpr uint64_t kColl = 1 << 1;
inline constexpr uint64_t kP2p = 1 << 2;
inline constexpr uint64_t kKernelLaunch = 1 << 11;  // from version 5 on

// A collective that a group puts on a stream.
struct Coll {
  uint64_t sequence;  // of its communicator
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* datatype;
  uint8_t num_channels;
  uint8_t num_warps;
  const char* algorithm;
  const char* protocol;
};

struct P2p {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t num_channels;
};

// In version 4 `type` is one byte, with three of nothing after it.
struct EventDescription {
  uint64_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
  };
};
static_assert(offsetof(EventDescription, parent) == 8 && offsetof(EventDescription, rank) == 16 &&
              offsetof(EventDescription, coll) == 24 && offsetof(EventDescription, p2p) == 24);
static_assert(offsetof(Coll, function) == 8 && offsetof(Coll, count) == 32 &&
              offsetof(Coll, root) == 40 && offsetof(Coll, datatype) == 48 &&
              offsetof(Coll, num_channels) == 56 && offsetof(Coll, num_warps) == 57 &&
              offsetof(Coll, algorithm) == 64 && offsetof(Coll, protocol) == 72);
static_assert(offsetof(P2p, datatype) == 16 && offsetof(P2p, count) == 24 &&
              offsetof(P2p, peer) == 32 && offsetof(P2p, num_channels) == 36);

using Result = int;  // ncclResult_t; 0 is success
using Logger = void*;
using StartEvent = Result (*)(void* context, void** event, const EventDescription* description);
using StopEvent = Result (*)(void* event);
using RecordEventState = Result (*)(void* event, int state, void* arguments);
using Finalize = Result (*)(void* context);

struct PluginV5 {
  const char* name;
  Result (*init)(void** context, uint64_t communicator, int* mask, const char* communicator_name,
                 int num_nodes, int num_ranks, int rank, Logger log);
  StartEvent start_event;
  StopEvent stop_event;
  RecordEventState record_event_state;
  Finalize finalize;
};

struct PluginV4 {
  const char* name;
  Result (*init)(void** context, int* mask, const char* communicator_name, uint64_t communicator,
                 int num_nodes, int num_ranks, int rank, Logger log);
  StartEvent start_event;
  StopEvent stop_event;
  RecordEventState record_event_state;
  Finalize finalize;
};
static_assert(sizeof(PluginV5) == 48 && sizeof(PluginV4) == 48);

}  // namespace shardscope::inject::nccl
