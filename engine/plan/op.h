// The vocabulary of a Schedule: ops, buffers, streams, communicators and dependencies. Plain data,
// no LibTorch; the executor runs it, the simulator costs it, the trace stores it, the app draws it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::plan {

using OpIndex = int32_t;            // position in the host order of one rank's program
using BufferId = int32_t;           // index into Program::buffers
using StreamIndex = int32_t;        // index into Schedule::streams
using CommunicatorIndex = int32_t;  // index into Schedule::communicators
inline constexpr int32_t kNone = -1;

enum class OpKind : uint8_t {
  // host
  kControl,    // step boundary: ranks agree on the Schedule of this step; starts every step
  kLoadBatch,  // reads one micro-batch of samples
  // copy
  kCast,        // master shard -> param dtype, before the all-gather (FSDP1 pre_unshard stream)
  kCopyIn,      // own shard -> collective buffer; gradients -> reduce-scatter input
  kCopyOut,     // all-gather output -> unsharded parameters
  kAccumulate,  // reduce-scatter output -> gradient shard (cast, and add if there is one already)
  // communication
  kAllGather,
  kReduceScatter,
  kAllReduce,
  // compute
  kForward,
  kBackward,
  // bookkeeping on a stream, no time of its own
  kReshard,  // frees a unit's unsharded parameters once the stream reaches it
  kRelease,  // frees other buffers (all-gather output, reduce-scatter input) once the stream
             // reaches it; with nothing to free it is a plain wait of its stream (FSDP1's
             // wait_stream before a prefetch), and OpName() calls it "wait"
  // optimizer
  kGradNorm,   // local sum of squares of the gradient shards
  kOptimizer,  // clip scale and AdamW on one unit's shards
};

enum class Category : uint8_t { kCompute, kCommunication, kCopy, kHost, kOptimizer };
enum class Phase : uint8_t { kForward, kBackward, kOptimizer };
enum class DType : uint8_t { kFp32, kBf16, kFp64 };

// Where a stream's lane stands in the timeline.
enum class StreamRole : uint8_t { kHost, kCompute, kCopy, kAllGather, kReduceScatter, kAllReduce };

// Memory categories, the same in trace and app.
enum class MemoryCategory : uint8_t {
  kParameterShard,
  kUnshardedParameter,
  kGradient,
  kGradientShard,
  kCommunicationBuffer,
  kOptimizer,
  kActivation,
  kTemporary,  // taken inside one op and given back before it ends; no Schedule lists it
  kOther,
};
inline constexpr int kNumMemoryCategories = 9;

// What a buffer holds, so that the engine can bind it to memory.
enum class BufferKind : uint8_t {
  kParameterShard,   // persistent: this rank's padded slice of each parameter of the unit, master
                     // dtype
  kGradientShard,    // persistent: same shape, reduced gradient
  kOptimizerState,   // persistent: AdamW's two moments
  kCastShard,        // the shard in param dtype (only if it differs from master dtype)
  kAllGatherOutput,  // num_ranks padded shards, rank-major
  kUnsharded,        // the unit's parameters, each contiguous
  kGradient,         // unsharded gradients of the unit
  kReduceScatterInput,   // num_ranks padded chunks, rank-major
  kReduceScatterOutput,  // one padded chunk, reduce dtype
  kActivation,           // what a segment's forward saves for its backward; includes its output
  kActivationGradient,   // gradient with respect to a segment's input
  kBatch,                // token ids of one micro-batch
  kNorm,                 // the sum of squares, one scalar
};

// Enum values in the text form and in the trace: "all_gather", "communication", "fp32", ...
std::string_view Name(OpKind kind);
std::string_view Name(Category category);
std::string_view Name(Phase phase);
std::string_view Name(DType dtype);
std::string_view Name(StreamRole role);
std::string_view Name(MemoryCategory category);
std::string_view Name(BufferKind kind);

Category CategoryOf(OpKind kind);
MemoryCategory MemoryCategoryOf(BufferKind kind);
int64_t BytesOf(DType dtype);

// Bytes that each rank sends for a collective of `payload_bytes`: payload * (N-1)/N, twice that for
// an all-reduce.
int64_t WireBytes(OpKind kind, int64_t payload_bytes, int num_ranks);

enum class DependencyKind : uint8_t {
  kEvent,   // this op's stream waits until one earlier op has ended (cudaStreamWaitEvent)
  kStream,  // this op's stream waits for all that was issued on another stream before this op
            // (wait_stream)
  kHost,    // the host blocks until one earlier op has ended, before it issues this op
};
std::string_view Name(DependencyKind kind);

// A wait that the host order alone does not give. Two more waits are implied and never listed: an
// op runs after the previous op of its stream, and a collective after the previous op of its
// communicator.
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

  // Collectives only.
  CommunicatorIndex communicator = kNone;
  DType dtype = DType::kFp32;
  int64_t payload_bytes = 0;  // unsharded, padding included
  int64_t wire_bytes = 0;     // sent by each rank: payload * (N-1)/N, twice that for an all-reduce

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
  bool operator==(const Buffer&) const = default;
};

struct Stream {
  std::string name;  // "compute", "all_gather", "unshard", ... as the preset's framework calls it
  StreamRole role = StreamRole::kCompute;
  bool operator==(const Stream&) const = default;
};

}  // namespace shardscope::plan
