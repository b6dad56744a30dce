// The transport among threads of one process, with or without an emulated link on top.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/transport/copy.h"
#include "engine/transport/link.h"
#include "engine/transport/reduce.h"
#include "engine/transport/rendezvous.h"
#include "engine/transport/transport.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/words.h"

namespace shardscope::transport {
namespace {

template <typename Piece>
const Piece& PieceOf(const Rendezvous& rendezvous, int place, size_t index) {
  return std::get<std::span<const Piece>>(rendezvous.Of(place).pieces)[index];
}

std::vector<int> AllOf(int num_ranks) {
  std::vector<int> ranks(static_cast<size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Whether the caller needs the result.
bool Needs(const Call& call, const Party& party) {
  return call.root == plan::kNone || call.root == party.place();
}

class SharedMemoryTransport : public Transport {
 public:
  // Without `link`, a collective takes as long as its copies take.
  SharedMemoryTransport(int num_ranks, int64_t timeout_ns, std::unique_ptr<Link> link)
      : num_ranks_(num_ranks),
        timeout_ns_(timeout_ns),
        link_(std::move(link)),
        capabilities_(link_ ? Capabilities{"emulated", words::Truth::kEmulated, true}
                            : Capabilities{"shared_memory", words::Truth::kMeasured, false}),
        host_(AllOf(num_ranks), timeout_ns, nullptr, [this](int rank) { return Described(rank); }) {
    SHARDSCOPE_CHECK(num_ranks > 0);
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override;
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const Reduction& reduction) override;
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const Reduction& reduction) override;
  void Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) override;
  int64_t Broadcast(int rank, int64_t value) override;
  void Abort(const std::string& reason) override { AbortAll(reason, /*is_timeout=*/false); }
  void SetLink(double bytes_per_second, int64_t latency_ns) override {
    if (link_) link_->Set(bytes_per_second, latency_ns);
  }

 private:
  void AbortAll(const std::string& reason, bool is_timeout);
  Rendezvous& RendezvousOf(const Call& call);
  std::string WaitingInOps();
  // On an error, aborts the transport, so that ranks in other collectives stop too.
  MetCall Meet(Rendezvous& rendezvous, const Announcement& announcement);
  int64_t Deadline(std::span<const int> ranks, std::span<const Announcement> announced);

  const int num_ranks_;
  const int64_t timeout_ns_;
  const std::unique_ptr<Link> link_;  // may be null
  const Capabilities capabilities_;
  Rendezvous host_;  // for Broadcast

  Mutex mutex_;
  // By communicator and the ranks of a group; made at first use, with stable addresses.
  std::map<std::pair<int32_t, std::vector<int>>, Rendezvous> groups_ GUARDED_BY(mutex_);
  std::string abort_reason_ GUARDED_BY(mutex_);
  bool is_timeout_ GUARDED_BY(mutex_) = false;
};

Rendezvous& SharedMemoryTransport::RendezvousOf(const Call& call) {
  const std::vector<int> ranks = Party(call, num_ranks_).Ranks();
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = groups_.try_emplace(
      {call.communicator, ranks}, ranks, timeout_ns_,
      [this, ranks](std::span<const Announcement> announced) { return Deadline(ranks, announced); },
      [this](int rank) { return Described(rank); });
  if (is_new && !abort_reason_.empty()) entry->second.Abort(abort_reason_, is_timeout_);
  return entry->second;
}

int64_t SharedMemoryTransport::Deadline(std::span<const int> ranks,
                                        std::span<const Announcement> announced) {
  if (!link_ || ranks.size() == 1) return 0;
  int64_t wire_bytes = 0;
  for (const Announcement& one : announced) wire_bytes = std::max(wire_bytes, one.call.wire_bytes);
  return link_->Reserve(ranks, MonotonicNs(), wire_bytes, announced.front().call.link);
}

// Of the ranks that wait in some collective; else empty.
std::string SharedMemoryTransport::WaitingInOps() {
  const MutexLock lock(mutex_);
  for (const auto& [group, rendezvous] : groups_) {
    if (std::string waiting = rendezvous.Waiting(); !waiting.empty()) return waiting;
  }
  return "";
}

MetCall SharedMemoryTransport::Meet(Rendezvous& rendezvous, const Announcement& announcement) {
  try {
    return rendezvous.Meet(announcement);
  } catch (const TransportTimeout& error) {
    // A rank that left out the last op of a step may be the first that has waited too long, between
    // steps, for those that it left behind.
    std::string reason = &rendezvous == &host_ ? WaitingInOps() : "";
    if (reason.empty()) reason = error.what();
    AbortAll(reason, /*is_timeout=*/true);
    throw TransportTimeout(reason);
  } catch (const TransportError& error) {
    Abort(error.what());
    throw;
  }
}

void SharedMemoryTransport::AllGather(const Call& call, std::span<const GatherPiece> pieces) {
  const Party party(call, num_ranks_);
  Rendezvous& rendezvous = RendezvousOf(call);
  const MetCall met = Meet(rendezvous, {call, pieces, {}});
  for (size_t index = 0; Needs(call, party) && index < pieces.size(); ++index) {
    for (int place = 0; place < party.size(); ++place) {
      const GatherPiece& from = PieceOf<GatherPiece>(rendezvous, place, index);
      std::byte* to = pieces[index].receive + static_cast<size_t>(place) * from.bytes;
      // An own shard that is already in place is left alone: others are reading it.
      if (to != from.send) CopyPiece(to, from.send, from.bytes);
    }
  }
  rendezvous.Sync();
  rendezvous.SleepUntil(met.deadline_ns);
}

void SharedMemoryTransport::ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                                          const Reduction& reduction) {
  const Party party(call, num_ranks_);
  Rendezvous& rendezvous = RendezvousOf(call);
  std::vector<const std::byte*> inputs(static_cast<size_t>(party.size()));
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(reduction.dtype));
  const MetCall met = Meet(rendezvous, {call, pieces, reduction});
  for (size_t index = 0; index < pieces.size(); ++index) {
    const size_t chunk_bytes = pieces[index].elements * element_bytes;
    for (int place = 0; place < party.size(); ++place) {
      inputs[static_cast<size_t>(place)] = PieceOf<ReducePiece>(rendezvous, place, index).send +
                                           static_cast<size_t>(party.place()) * chunk_bytes;
    }
    SumInOrder(inputs, pieces[index].elements, reduction.dtype, reduction.scale,
               pieces[index].receive);
  }
  rendezvous.Sync();
  rendezvous.SleepUntil(met.deadline_ns);
}

// Two passes without scratch memory. First every rank sums its chunk of all ranks' data into its
// own data: no other rank reads that chunk there. Then, after a barrier, every rank fetches the
// others' chunks.
void SharedMemoryTransport::AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                                      const Reduction& reduction) {
  const Party party(call, num_ranks_);
  Rendezvous& rendezvous = RendezvousOf(call);
  std::vector<const std::byte*> inputs(static_cast<size_t>(party.size()));
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(reduction.dtype));
  const MetCall met = Meet(rendezvous, {call, pieces, reduction});
  for (size_t index = 0; index < pieces.size(); ++index) {
    const auto [from, to] = ChunkOf(pieces[index].elements, party.place(), party.size());
    for (int place = 0; place < party.size(); ++place) {
      inputs[static_cast<size_t>(place)] =
          PieceOf<AllReducePiece>(rendezvous, place, index).data + from * element_bytes;
    }
    SumInOrder(inputs, to - from, reduction.dtype, reduction.scale,
               pieces[index].data + from * element_bytes);
  }
  rendezvous.Sync();
  for (size_t index = 0; Needs(call, party) && index < pieces.size(); ++index) {
    for (int place = 0; place < party.size(); ++place) {
      const auto [from, to] = ChunkOf(pieces[index].elements, place, party.size());
      if (place == party.place() || from == to) continue;
      const std::byte* source = PieceOf<AllReducePiece>(rendezvous, place, index).data;
      CopyPiece(pieces[index].data + from * element_bytes, source + from * element_bytes,
                (to - from) * element_bytes);
    }
  }
  rendezvous.Sync();
  rendezvous.SleepUntil(met.deadline_ns);
}

void SharedMemoryTransport::Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) {
  const Party party(call, num_ranks_);
  Rendezvous& rendezvous = RendezvousOf(call);
  const MetCall met = Meet(rendezvous, {call, pieces, {}});
  if (call.all_arrived_ns != nullptr) *call.all_arrived_ns = met.all_arrived_ns;
  if (party.place() != call.root) {
    for (size_t index = 0; index < pieces.size(); ++index) {
      const BroadcastPiece& from = PieceOf<BroadcastPiece>(rendezvous, call.root, index);
      const size_t slot = static_cast<size_t>(party.place()) * from.slot_bytes;
      CopyPiece(pieces[index].data, from.data + slot, from.bytes);
    }
  }
  rendezvous.Sync();
  rendezvous.SleepUntil(met.deadline_ns);
}

int64_t SharedMemoryTransport::Broadcast(int rank, int64_t value) {
  const Call call = {.rank = rank, .op_name = "control"};
  return Meet(host_, {call, value, {}}).value;
}

void SharedMemoryTransport::AbortAll(const std::string& reason, bool is_timeout) {
  const MutexLock lock(mutex_);
  if (abort_reason_.empty()) {
    abort_reason_ = reason.empty() ? "no reason given" : reason;
    is_timeout_ = is_timeout;
  }
  host_.Abort(abort_reason_, is_timeout_);
  for (auto& [group, rendezvous] : groups_) {
    rendezvous.Abort(abort_reason_, is_timeout_);
  }
}

}  // namespace

std::unique_ptr<Transport> MakeSharedMemoryTransport(int num_ranks, int64_t timeout_ns) {
  return std::make_unique<SharedMemoryTransport>(num_ranks, timeout_ns, nullptr);
}

std::unique_ptr<Transport> MakeEmulatedTransport(int num_ranks, int64_t timeout_ns,
                                                 double bytes_per_second, int64_t latency_ns) {
  return std::make_unique<SharedMemoryTransport>(
      num_ranks, timeout_ns, std::make_unique<Link>(num_ranks, bytes_per_second, latency_ns));
}

}  // namespace shardscope::transport
