// The vocabulary of a Schedule: ops, buffers, streams, communicators and dependencies. Plain data,
// no LibTorch; executor, trace and app share it. trace/base/words.py says what each word means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/wire_bytes.h"
#include "trace/base/words.h"

namespace shardscope::plan {

using OpIndex = int32_t;            // position in the host order of one rank's program
using BufferId = int32_t;           // index into Program::buffers
using StreamIndex = int32_t;        // index into Schedule::streams
using CommunicatorIndex = int32_t;  // index into Schedule::communicators
inline constexpr int32_t kNone = -1;

using words::BufferForm;
using words::BufferKind;
using words::BufferKindTraits;
using words::Category;
using words::DependencyKind;
using words::DType;
using words::KeptAs;
using words::kNumMemoryCategories;
using words::kNumPartDTypes;
using words::MemoryCategory;
using words::OpClass;
using words::OpKind;
using words::OpKindTraits;
using words::PartDType;
using words::PayloadSide;
using words::Phase;
using words::SummedPart;
using words::TensorSplit;
using words::TraitsOf;
using words::UnitPart;
using words::WireBytes;
using StreamRole = words::TrackRole;
using words::Name;

inline Category CategoryOf(OpKind kind) { return TraitsOf(TraitsOf(kind).op_class).category; }
inline MemoryCategory MemoryCategoryOf(BufferKind kind) { return TraitsOf(kind).memory; }
inline bool IsCollective(OpKind kind) { return CategoryOf(kind) == Category::kCommunication; }
constexpr int64_t BytesOf(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return 4;
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp64:
      return 8;
  }
  return 0;
}

// A wait that the host order alone does not give. Two more waits are implied and never listed: an
// op runs after the previous op of its stream, and a collective after the previous op of its
// communicator; a send or receive after the previous one that has the same peer.
struct Dependency {
  DependencyKind kind = DependencyKind::kEvent;
  int32_t target =
      kNone;  // kEvent, kHost: OpIndex (smaller than the op's own); kStream: StreamIndex
  bool operator==(const Dependency&) const = default;
};

struct Op {
  OpKind kind = OpKind::kControl;
  Phase phase = Phase::kForward;
  int32_t micro_batch = kNone;  // kNone: belongs to the whole step
  int32_t unit = kNone;     // index into Schedule::units; communication, copy, reshard, optimizer
  int32_t segment = kNone;  // index into Schedule::segments; forward and backward
  StreamIndex stream = 0;

  // Collectives, sends and receives only.
  CommunicatorIndex communicator = kNone;
  int32_t peer = kNone;  // of a send or receive: the other's place in the communicator's group
  int32_t root = kNone;  // of a broadcast, scatter, gather or reduce: the root's place there
  DType dtype = DType::kFp32;
  int64_t payload_bytes = 0;  // unsharded, padding included
  int64_t wire_bytes = 0;     // sent by this rank: see words::WireBytes()

  // Buffers of this rank. Allocation happens when the op is issued (issue ledger) and when it
  // starts (execution ledger); a free when it is issued and when it ends.
  std::vector<BufferId> allocates;
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  std::vector<BufferId> frees;
  std::vector<Dependency> dependencies;

  bool operator==(const Op&) const = default;
};

struct Buffer {
  BufferKind kind = BufferKind::kUnsharded;
  int32_t unit = kNone;
  int32_t segment = kNone;
  int32_t micro_batch = kNone;
  int64_t bytes = 0;        // on one rank, padding included; for activations an estimate
  bool persistent = false;  // exists before and after the step; never allocated or freed by an op
  BufferId slot = kNone;    // persistent buffer in whose memory it is, and takes none of its own
  bool operator==(const Buffer&) const = default;
};

struct Stream {
  std::string name;  // "compute", "all_gather", "unshard", ... as the preset's framework calls it
  StreamRole role = StreamRole::kCompute;
  bool operator==(const Stream&) const = default;
};

}  // namespace shardscope::plan
