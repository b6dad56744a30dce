#include "engine/transport/gloo/tag.h"

#include <cstdint>
#include <cstring>

#include "trace/base/hash.h"

namespace shardscope::transport {
namespace {

constexpr int kDigestBits = 20;  // the communicators of pairs need the rest

// FNV-1a.
class Digest {
 public:
  void Add(uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = FnvStep(hash_, (value >> (8 * byte)) & 0xFF);
    }
  }
  int Bits() const {
    const uint64_t mixed = hash_ ^ (hash_ >> 32);
    return static_cast<int>(mixed & ((1 << kDigestBits) - 1));
  }

 private:
  uint64_t hash_ = kFnvBasis;
};

template <typename Piece>
int TagOfAny(words::OpKind kind, int communicator, std::span<const Piece> pieces,
             const Reduction& reduction, bool is_second_half = false) {
  Digest digest;
  digest.Add(static_cast<uint64_t>(kind));
  digest.Add(is_second_half ? 1 : 0);
  digest.Add(static_cast<uint64_t>(reduction.dtype));
  uint64_t scale = 0;
  std::memcpy(&scale, &reduction.scale, sizeof(scale));
  digest.Add(scale);
  for (const Piece& piece : pieces) digest.Add(SizeOf(piece));
  return (communicator << kDigestBits) | digest.Bits();
}

}  // namespace

int TagOf(words::OpKind kind, int communicator, std::span<const GatherPiece> pieces) {
  return TagOfAny(kind, communicator, pieces, {});
}
int TagOf(words::OpKind kind, int communicator, std::span<const ReducePiece> pieces,
          const Reduction& reduction) {
  return TagOfAny(kind, communicator, pieces, reduction);
}
int TagOf(words::OpKind kind, int communicator, std::span<const AllReducePiece> pieces,
          const Reduction& reduction, bool is_second_half) {
  return TagOfAny(kind, communicator, pieces, reduction, is_second_half);
}
int TagOf(words::OpKind kind, int communicator, std::span<const BroadcastPiece> pieces) {
  return TagOfAny(kind, communicator, pieces, {});
}

int TagAt(std::string_view op_name, int tag) {
  Digest digest;
  for (const char letter : op_name) digest.Add(static_cast<uint64_t>(letter));
  return tag ^ digest.Bits();
}

}  // namespace shardscope::transport
