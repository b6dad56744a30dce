#include "engine/plan/op.h"

namespace shardscope::plan {

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
  // Split so that no size overflows.
  const int64_t others = num_ranks - 1;
  const int64_t sent =
      payload_bytes / num_ranks * others + payload_bytes % num_ranks * others / num_ranks;
  return TraitsOf(kind).ring_passes * sent;
}

}  // namespace shardscope::plan
