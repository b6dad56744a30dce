#include "engine/transport/gloo/tag.h"

#include <cstring>

#include "trace/base/hash.h"
#include "trace/base/words.h"

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
int TagOfAny(Kind kind, int communicator, std::span<const Piece> pieces,
             const Reduction& reduction) {
  Digest digest;
  digest.Add(static_cast<uint64_t>(kind));
  digest.Add(static_cast<uint64_t>(reduction.dtype));
  uint64_t scale = 0;
  std::memcpy(&scale, &reduction.scale, sizeof(scale));
  digest.Add(scale);
  for (const Piece& piece : pieces) digest.Add(SizeOf(piece));
  return (communicator << kDigestBits) | digest.Bits();
}

}  // namespace

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kAllGather:
      return Name(words::OpKind::kAllGather);
    case Kind::kReduceScatter:
      return Name(words::OpKind::kReduceScatter);
    case Kind::kAllReduce:
    case Kind::kAllReduceGather:
      return Name(words::OpKind::kAllReduce);
    case Kind::kBroadcast:
      break;
  }
  return Name(words::OpKind::kBroadcast);
}

int TagOf(Kind kind, int communicator, std::span<const GatherPiece> pieces) {
  return TagOfAny(kind, communicator, pieces, {});
}
int TagOf(Kind kind, int communicator, std::span<const ReducePiece> pieces,
          const Reduction& reduction) {
  return TagOfAny(kind, communicator, pieces, reduction);
}
int TagOf(Kind kind, int communicator, std::span<const AllReducePiece> pieces,
          const Reduction& reduction) {
  return TagOfAny(kind, communicator, pieces, reduction);
}
int TagOf(Kind kind, int communicator, std::span<const BroadcastPiece> pieces) {
  return TagOfAny(kind, communicator, pieces, {});
}

int TagAt(std::string_view op_name, int tag) {
  Digest digest;
  for (const char letter : op_name) digest.Add(static_cast<uint64_t>(letter));
  return tag ^ digest.Bits();
}

}  // namespace shardscope::transport
