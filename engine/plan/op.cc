#include "engine/plan/op.h"

#include <array>

namespace shardscope::plan {
// An index past the end gives "": that is how the parser finds the last value of an enum.
std::string_view Name(BufferKind kind) {
  static constexpr std::array<std::string_view, 13> kNames = {"parameter_shard",
                                                              "gradient_shard",
                                                              "optimizer_state",
                                                              "cast_shard",
                                                              "all_gather_output",
                                                              "unsharded",
                                                              "gradient",
                                                              "reduce_scatter_input",
                                                              "reduce_scatter_output",
                                                              "activation",
                                                              "activation_gradient",
                                                              "batch",
                                                              "norm"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : std::string_view();
}

Category CategoryOf(OpKind kind) {
  switch (kind) {
    case OpKind::kControl:
    case OpKind::kLoadBatch:
    case OpKind::kReshard:
    case OpKind::kRelease:
      return Category::kHost;
    case OpKind::kCast:
    case OpKind::kCopyIn:
    case OpKind::kCopyOut:
    case OpKind::kAccumulate:
      return Category::kCopy;
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllReduce:
      return Category::kCommunication;
    case OpKind::kForward:
    case OpKind::kBackward:
      return Category::kCompute;
    case OpKind::kGradNorm:
    case OpKind::kOptimizer:
      return Category::kOptimizer;
  }
  return Category::kHost;
}

MemoryCategory MemoryCategoryOf(BufferKind kind) {
  switch (kind) {
    case BufferKind::kParameterShard:
      return MemoryCategory::kParameterShard;
    case BufferKind::kGradientShard:
      return MemoryCategory::kGradientShard;
    case BufferKind::kOptimizerState:
      return MemoryCategory::kOptimizer;
    case BufferKind::kUnsharded:
      return MemoryCategory::kUnshardedParameter;
    case BufferKind::kGradient:
      return MemoryCategory::kGradient;
    case BufferKind::kCastShard:
    case BufferKind::kAllGatherOutput:
    case BufferKind::kReduceScatterInput:
    case BufferKind::kReduceScatterOutput:
      return MemoryCategory::kCommunicationBuffer;
    case BufferKind::kActivation:
    case BufferKind::kActivationGradient:
      return MemoryCategory::kActivation;
    case BufferKind::kBatch:
    case BufferKind::kNorm:
      return MemoryCategory::kOther;
  }
  return MemoryCategory::kOther;
}

int64_t BytesOf(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kFp64:
      return 8;
  }
  return 0;
}

int64_t WireBytes(OpKind kind, int64_t payload_bytes, int num_ranks) {
  // Ring volume: an all-gather or reduce-scatter sends N-1 of N chunks, an all-reduce does both.
  // Split so that no size overflows.
  const int64_t others = num_ranks - 1;
  const int64_t sent =
      payload_bytes / num_ranks * others + payload_bytes % num_ranks * others / num_ranks;
  return kind == OpKind::kAllReduce ? 2 * sent : sent;
}

}  // namespace shardscope::plan
