// Transport: collectives among the ranks of a communicator, on raw memory. One interface; it
// declares what it can do and how true its times are. No LibTorch.
//
// Threads: each rank calls from the thread of the stream that runs the collective; a call blocks
// until the collective is done for this rank. All ranks must call in the same order per
// communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/plan/mesh.h"
#include "engine/plan/op.h"
#include "trace/base/words.h"

namespace shardscope::transport {

// One contiguous piece. A unit may be sent as many pieces (one per parameter, no copies: FSDP1,
// zero-copy) or as one (through a communication buffer: FSDP2).
// Sizes and orders are those of the group that calls together.
struct GatherPiece {
  const std::byte* send = nullptr;  // this rank's padded shard, `bytes` long
  std::byte* receive = nullptr;  // num_ranks * bytes, rank-major; may contain `send` at its place
  size_t bytes = 0;
};
struct ReducePiece {
  const std::byte* send = nullptr;  // num_ranks * elements, rank-major
  std::byte* receive = nullptr;  // elements; this rank's chunk, reduced; may not overlap any `send`
  size_t elements = 0;           // per rank
};
struct AllReducePiece {
  std::byte* data = nullptr;  // in place
  size_t elements = 0;
};

struct BroadcastPiece {
  std::byte* data = nullptr;  // of the root read, of the others written
  size_t bytes = 0;           // that each of the others gets
  // Above 0: a scatter, the root has so many for each place, itself included, one after the other.
  size_t slot_bytes = 0;
};

// In bytes, or elements per rank.
inline size_t SizeOf(const GatherPiece& piece) { return piece.bytes; }
inline size_t SizeOf(const ReducePiece& piece) { return piece.elements; }
inline size_t SizeOf(const AllReducePiece& piece) { return piece.elements; }
inline size_t SizeOf(const BroadcastPiece& piece) { return piece.bytes; }

// Reductions add in rank order in max(fp32, dtype) and multiply by `scale` once at the end, so that
// runs repeat bit for bit.
struct Reduction {
  plan::DType dtype = plan::DType::kFp32;
  double scale = 1;
};

// Memory for what a transport needs only while a call runs. Aligned to 64 bytes; contents are
// undefined.
class ScratchMemory {
 public:
  virtual ~ScratchMemory() = default;
  virtual std::byte* Take(size_t bytes) = 0;
  virtual void GiveBack(std::byte* block, size_t bytes) = 0;
};

// Communicators that no Schedule has: each carries calls of one kind, in order.
inline constexpr plan::CommunicatorIndex kMoveState = 124;     // engine/runtime/units/state_move.h
inline constexpr plan::CommunicatorIndex kBetweenSteps = 125;  // between_steps.h
inline constexpr plan::CommunicatorIndex kHostBroadcast = 126;

// Two ranks of a group that send and receive are a group of their own, with one root: each
// direction between two of its places is a communicator to the transport. `from`: the sender's
// place.
inline constexpr plan::CommunicatorIndex kMostPlaces = 128;  // Mesh::sizes are at most that
inline plan::CommunicatorIndex PairCommunicator(plan::CommunicatorIndex communicator,
                                                int32_t from) {
  return kMostPlaces * (1 + communicator) + from;
}
inline bool IsPair(plan::CommunicatorIndex communicator) { return communicator >= kMostPlaces; }

// An emulated link other than the transport's own, for some of its collectives.
struct CallLink {
  int wire = 0;                 // each of them has a wire to each rank; 0: the transport's own
  double bytes_per_second = 0;  // 0: the transport's own
  int64_t latency_ns = -1;      // -1: the transport's own
};
inline constexpr int kNumWires = 1 + plan::kNumMeshDimensions;

// What identifies a call, for errors and for the check that all ranks call the same.
struct Call {
  int rank = 0;
  plan::CommunicatorIndex communicator = 0;
  const plan::Group* group = nullptr;  // of this communicator, with the rank; null: all ranks
  // Of a broadcast: whose data it is, as a place in the group. Of an all-gather or all-reduce: who
  // alone needs the result, what others have then is undefined.
  int32_t root = plan::kNone;
  std::string_view op_name;  // for messages
  int64_t wire_bytes = 0;    // what the emulated link charges
  CallLink link;
  // Of a Schedule: ranks have to agree on op_name, and the later op is ahead (of a pair, whose
  // ranks run programs of their own, neither is). kNone: any call.
  plan::OpIndex op = plan::kNone;
  // The memory that the call may use, counted there. Null: the transport's own, for few bytes.
  ScratchMemory* scratch = nullptr;
  // For transports of a GPU: the queue on which the collective is put (a cudaStream_t), and in
  // which step. Null: the pieces are host memory.
  void* device_stream = nullptr;
  int64_t step = 0;
  // Where it is known and asked for: when the last one came.
  int64_t* all_arrived_ns = nullptr;
};

// Who takes part in a call.
class Party {
 public:
  // `num_ranks`: of the transport.
  Party(const Call& call, int num_ranks)
      : group_(call.group),
        place_(group_ == nullptr ? call.rank : group_->place),
        size_(group_ == nullptr ? num_ranks : static_cast<int>(group_->ranks.size())) {}

  int size() const { return size_; }
  int place() const { return place_; }  // of the calling rank, from 0
  int RankAt(int place) const {
    return group_ == nullptr ? place : group_->ranks[static_cast<size_t>(place)];
  }
  std::vector<int> Ranks() const {
    std::vector<int> ranks;
    for (int place = 0; place < size_; ++place) ranks.push_back(RankAt(place));
    return ranks;
  }

 private:
  const plan::Group* group_;
  int place_;
  int size_;
};

struct Capabilities {
  std::string name;                              // "shared_memory"
  words::Truth truth = words::Truth::kMeasured;  // of the times of its collectives
  bool has_link = false;                         // bandwidth and latency act
};

// A mismatch between ranks, a timeout that names who is missing, an abort. After the first two the
// transport is aborted with their message, so that all ranks stop.
class TransportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A rank did not come in time, or has gone. The text says which, what it does instead and who waits
// for it.
class TransportTimeout : public TransportError {
 public:
  using TransportError::TransportError;
};

// "rank 2 hangs in ...": what a rank does right now. Empty: it is not known (another process).
using DescribeRank = std::function<std::string(int rank)>;

// Errors are exceptions of type TransportError.
class Transport {
 public:
  virtual ~Transport() = default;

  // Asked once a rank is missing, while the others still wait. Before the first call; it may not
  // call the transport.
  void set_describe_rank(DescribeRank describe) { describe_rank_ = std::move(describe); }

  virtual const Capabilities& capabilities() const = 0;
  virtual void AllGather(const Call& call, std::span<const GatherPiece> pieces) = 0;
  virtual void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                             const Reduction& reduction) = 0;
  virtual void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                         const Reduction& reduction) = 0;

  // What the root has to all others.
  virtual void Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) = 0;

  // Most that such a call takes from its scratch memory; `pieces`: at most so many.
  virtual int64_t ScratchBytes(plan::OpKind /*kind*/, int64_t /*payload_bytes*/,
                               int64_t /*pieces*/) const {
    return 0;
  }

  // Host rendezvous of all ranks (control op). Returns rank 0's `value` on every rank.
  virtual int64_t Broadcast(int rank, int64_t value) = 0;

  // Makes all present and future calls throw, with `reason`. Any thread.
  virtual void Abort(const std::string& reason) = 0;

  // Throws what calls throw after an abort. For transports whose calls only put work on a GPU's
  // queue: one that was aborted while the work ran leaves no other sign.
  virtual void ThrowIfAborted() const {}

  // Where ranks are processes: a short text of a rank that the others can read, at any time. Best
  // effort, and as long under way as the place where the processes meet does not answer. Any
  // thread. Empty: nothing was posted, or it cannot be known.
  virtual void Post(int /*rank*/, const std::string& /*text*/) {}
  virtual std::string ReadPost(int /*rank*/) { return ""; }

  // Live knobs of an emulated link; ignored without has_link. Any thread.
  virtual void SetLink(double bytes_per_second, int64_t latency_ns) = 0;

 protected:
  // "rank 2 hangs in ..." or, where nothing is known of it, "rank 2 has not come".
  std::string Described(int rank) const {
    std::string text = describe_rank_ ? describe_rank_(rank) : "";
    return text.empty() ? "rank " + std::to_string(rank) + " has not come" : text;
  }

 private:
  DescribeRank describe_rank_;
};

// Ranks are threads of this process. A call that waits longer than `timeout_ns` for another rank
// fails (time in which the whole process was stopped does not count); 0 waits for ever.
std::unique_ptr<Transport> MakeSharedMemoryTransport(int num_ranks, int64_t timeout_ns);

// As shared_memory (the bytes really move), but a collective ends no earlier than latency + wire
// bytes / bandwidth after the last rank arrived. All communicators of a rank share its link: a
// collective has it to itself from the last arrival, or from the end of the one before, to its own
// end. One rank alone has no link. Waiting costs no CPU but in the last 100 us, which a thread that
// sleeps would come back too late from; where ranks share cores it sleeps there too.
std::unique_ptr<Transport> MakeEmulatedTransport(int num_ranks, int64_t timeout_ns,
                                                 double bytes_per_second, int64_t latency_ns);

}  // namespace shardscope::transport
