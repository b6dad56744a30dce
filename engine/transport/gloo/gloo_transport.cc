#include "engine/transport/gloo/gloo_transport.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/transport/gloo/meeting.h"
#include "engine/transport/gloo/mesh.h"
#include "engine/transport/gloo/stop_reason.h"
#include "engine/transport/gloo/store.h"
#include "engine/transport/gloo/tag.h"
#include "engine/transport/gloo_scratch.h"
#include "engine/transport/left_out.h"
#include "engine/transport/reduce.h"
#include "trace/base/check.h"
#include "trace/base/round_up.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::transport {
namespace {

using words::OpKind;

constexpr int64_t kForeverNs = 365 * 24 * 3600 * kNsPerSecond;
constexpr int64_t kConnectNs = 60 * kNsPerSecond;  // for threads of one process
constexpr int64_t kReasonNs = kNsPerSecond;  // how long a rank waits to learn why another went

size_t AlignedUp(size_t bytes) { return RoundUp(bytes, kScratchAlignment); }

// Memory for what other ranks send to be summed, for the length of a call.
class Scratch {
 public:
  Scratch(const Call& call, size_t bytes)
      : owner_(call.scratch),
        bytes_(bytes),
        own_(owner_ == nullptr ? bytes + kScratchAlignment : 0),
        data_(owner_ == nullptr ? Aligned(own_.data()) : owner_->Take(bytes)) {}
  ~Scratch() {
    if (owner_ != nullptr) owner_->GiveBack(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const { return data_; }

 private:
  static std::byte* Aligned(std::byte* block) {
    const auto address = reinterpret_cast<uintptr_t>(block);
    return block + (kScratchAlignment - address % kScratchAlignment) % kScratchAlignment;
  }

  ScratchMemory* const owner_;
  const size_t bytes_;
  std::vector<std::byte> own_;
  std::byte* const data_;
};

std::string PlaceKey(int rank) { return "place/" + std::to_string(rank); }

std::string InWords(const CallPlace& place) {
  const std::string op = place.op == plan::kNone ? "" : " (op " + std::to_string(place.op) + ")";
  return place.kind + " '" + place.op_name + "'" + op;
}

// One message of a collective.
struct Message {
  int peer = 0;
  std::byte* receive = nullptr;     // either this
  const std::byte* send = nullptr;  // or this
  size_t bytes = 0;
};

// The places of the others, each rank beginning with its successor, so that not all send to the
// first one first.
std::vector<int> OthersOf(const Party& party) {
  std::vector<int> others;
  for (int i = 1; i < party.size(); ++i) others.push_back((party.place() + i) % party.size());
  return others;
}

// What the calling rank sends of its pieces to each of the others, and receives from it.
std::vector<Message> GatherMessages(const Party& party, std::span<const GatherPiece> pieces) {
  std::vector<Message> messages;
  for (const int other : OthersOf(party)) {
    for (const GatherPiece& piece : pieces) {
      if (piece.bytes == 0) continue;
      const int peer = party.RankAt(other);
      std::byte* place = piece.receive + static_cast<size_t>(other) * piece.bytes;
      messages.push_back({.peer = peer, .receive = place, .bytes = piece.bytes});
      messages.push_back({.peer = peer, .send = piece.send, .bytes = piece.bytes});
    }
  }
  return messages;
}

// A rank's part of a piece that all ranks add up.
struct ReduceChunk {
  std::byte* data = nullptr;
  size_t elements = 0;
};

ReduceChunk ChunkAt(const AllReducePiece& piece, int place, int num_places, size_t element_bytes) {
  const auto [from, to] = ChunkOf(piece.elements, place, num_places);
  return {piece.data + from * element_bytes, to - from};
}

// Of an all-reduce of much, in which each rank first adds up its chunk of each piece.
struct AllReduceMessages {
  std::vector<const std::byte*> inputs;  // [piece * ranks + place]: what is added up here
  std::vector<Message> reduces;          // bring these
  std::vector<Message> gathers;          // bring the sums to all
};

// `scratch`: for what comes from the others, each chunk in a section of its own.
AllReduceMessages MessagesOfAllReduce(const Party& party, std::span<const AllReducePiece> pieces,
                                      size_t element_bytes, std::byte* scratch) {
  AllReduceMessages messages;
  for (const AllReducePiece& piece : pieces) {
    const ReduceChunk own = ChunkAt(piece, party.place(), party.size(), element_bytes);
    const size_t bytes = own.elements * element_bytes;
    for (int place = 0; place < party.size(); ++place) {
      messages.inputs.push_back(place == party.place() ? own.data : scratch);
      if (place == party.place()) continue;
      const int peer = party.RankAt(place);
      const ReduceChunk theirs = ChunkAt(piece, place, party.size(), element_bytes);
      const size_t their_bytes = theirs.elements * element_bytes;
      if (bytes > 0) {
        messages.reduces.push_back({.peer = peer, .receive = scratch, .bytes = bytes});
        messages.gathers.push_back({.peer = peer, .send = own.data, .bytes = bytes});
      }
      if (their_bytes > 0) {
        messages.reduces.push_back({.peer = peer, .send = theirs.data, .bytes = their_bytes});
        messages.gathers.push_back({.peer = peer, .receive = theirs.data, .bytes = their_bytes});
      }
      scratch += AlignedUp(bytes);
    }
  }
  return messages;
}

class GlooTransport : public Transport {
 public:
  GlooTransport(int num_ranks, int first_rank, int64_t timeout_ns, std::unique_ptr<Store> store)
      : num_ranks_(num_ranks),
        first_rank_(first_rank),
        timeout_ns_(timeout_ns > 0 ? timeout_ns : kForeverNs),
        store_(std::move(store)),
        stop_reason_(store_.get()) {}
  ~GlooTransport() override;

  // Connects ranks first_rank .. first_rank + count - 1, all at once.
  void Connect(int count, bool is_loopback, int64_t limit_ns);

  const Capabilities& capabilities() const override { return capabilities_; }
  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override;
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const Reduction& reduction) override;
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const Reduction& reduction) override;
  int64_t ScratchBytes(plan::OpKind kind, int64_t payload_bytes, int64_t pieces) const override {
    return GlooScratchBytes(kind, payload_bytes, pieces, num_ranks_);
  }
  void Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) override;
  int64_t Broadcast(int rank, int64_t value) override;
  void Abort(const std::string& reason) override;
  void Post(int rank, const std::string& text) override {
    store_->Set("post/" + std::to_string(rank), text);
  }
  std::string ReadPost(int rank) override { return store_->Get("post/" + std::to_string(rank)); }
  void SetLink(double, int64_t) override {}

 private:
  // What a rank that cannot go on says of the call it is in.
  struct ToldPlace {
    plan::CommunicatorIndex communicator = 0;
    CallPlace at;
  };

  Mesh* MeshOf(int rank) const;
  Party PartyOf(const Call& call) const { return {call, num_ranks_}; }
  // Sends and receives all messages; `meanwhile` runs while they are under way.
  template <typename Work>
  void Exchange(const Call& call, OpKind kind, int tag, std::span<const Message> messages,
                const Work& meanwhile);
  void AllReduceSmall(const Call& call, std::span<const AllReducePiece> pieces,
                      const Reduction& reduction);
  void TellPlace(const Call& call, OpKind kind);
  std::optional<ToldPlace> ReadPlace(int rank);
  std::string WhoLeftOut(const Call& call, OpKind kind, std::span<const int> missing);
  std::string Whereabouts(int rank);
  [[noreturn]] void Fail(const Call& call, OpKind kind, std::vector<int> missing, bool timed_out);
  void Stop(const std::string& reason, bool is_first);

  const int num_ranks_;
  const int first_rank_;
  const int64_t timeout_ns_;
  const Capabilities capabilities_ = {"gloo", words::Truth::kMeasured, false};
  const std::unique_ptr<Store> store_;
  StopReason stop_reason_;
  std::vector<std::unique_ptr<Mesh>> meshes_;  // of the ranks of this process; null if one is alone
};

GlooTransport::~GlooTransport() {
  if (stop_reason_.is_set()) stop_reason_.WaitForReaders([this] { return num_ranks_; });
}

void GlooTransport::Connect(int count, bool is_loopback, int64_t limit_ns) {
  meshes_.resize(static_cast<size_t>(count));
  if (num_ranks_ == 1) return;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::jthread> threads;  // joined where one more cannot be started, too
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        meshes_[static_cast<size_t>(i)] =
            Mesh::Connect({first_rank_ + i, num_ranks_, is_loopback}, store_.get(), limit_ns);
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  }
  threads.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

Mesh* GlooTransport::MeshOf(int rank) const {
  const int index = rank - first_rank_;
  SHARDSCOPE_CHECK(index >= 0 && index < static_cast<int>(meshes_.size()));
  return meshes_[static_cast<size_t>(index)].get();
}

// Note: why receives are posted first
// A message is on its way only once the other side has said that it waits for it. So every rank
// says so before it begins to copy into its own sockets.
template <typename Work>
void GlooTransport::Exchange(const Call& call, OpKind kind, int tag,
                             std::span<const Message> messages, const Work& meanwhile) {
  stop_reason_.ThrowIfSet();
  tag = TagAt(call.op_name, tag);
  Mesh* mesh = MeshOf(call.rank);
  const int64_t deadline_ns = MonotonicNs() + timeout_ns_;
  std::vector<std::unique_ptr<Transfer>> transfers(messages.size());
  for (const bool receives : {true, false}) {
    for (size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      if ((message.receive != nullptr) != receives) continue;
      transfers[i] = receives ? mesh->Receive(message.receive, message.bytes, message.peer, tag)
                              : mesh->Send(message.send, message.bytes, message.peer, tag);
    }
  }
  meanwhile();
  std::vector<int> missing;
  bool timed_out = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const TransferEnd end = transfers[i] ? transfers[i]->Wait(deadline_ns) : TransferEnd::kClosed;
    if (end == TransferEnd::kDone) continue;
    timed_out = timed_out || end == TransferEnd::kTimeout;
    missing.push_back(messages[i].peer);
    // The timeout has closed all connections. What had arrived before is still seen to have.
    if (!timed_out) break;
  }
  if (!missing.empty()) Fail(call, kind, std::move(missing), timed_out);
}

void GlooTransport::AllGather(const Call& call, std::span<const GatherPiece> pieces) {
  const Party party = PartyOf(call);
  const std::vector<Message> messages = GatherMessages(party, pieces);
  Exchange(call, OpKind::kAllGather, TagOf(OpKind::kAllGather, call.communicator, pieces), messages,
           [&] {
             for (const GatherPiece& piece : pieces) {
               std::byte* own = piece.receive + static_cast<size_t>(party.place()) * piece.bytes;
               if (own != piece.send && piece.bytes > 0) std::memcpy(own, piece.send, piece.bytes);
             }
           });
}

void GlooTransport::ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                                  const Reduction& reduction) {
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(reduction.dtype));
  const auto section = [&](const ReducePiece& piece) {  // one rank's
    return AlignedUp(piece.elements * element_bytes);
  };
  const Party party = PartyOf(call);
  size_t scratch_bytes = 0;
  for (const ReducePiece& piece : pieces) {
    scratch_bytes += section(piece) * static_cast<size_t>(party.size() - 1);
  }
  const Scratch scratch(call, scratch_bytes);
  // inputs[piece * ranks + place]
  std::vector<const std::byte*> inputs;
  std::vector<Message> messages;
  std::byte* free = scratch.data();
  for (const ReducePiece& piece : pieces) {
    const size_t bytes = piece.elements * element_bytes;
    for (int place = 0; place < party.size(); ++place) {
      const std::byte* chunk = piece.send + static_cast<size_t>(place) * bytes;
      inputs.push_back(place == party.place() ? chunk : free);
      if (place == party.place() || bytes == 0) continue;
      messages.push_back({.peer = party.RankAt(place), .receive = free, .bytes = bytes});
      messages.push_back({.peer = party.RankAt(place), .send = chunk, .bytes = bytes});
      free += section(piece);
    }
  }
  Exchange(call, OpKind::kReduceScatter,
           TagOf(OpKind::kReduceScatter, call.communicator, pieces, reduction), messages, [] {});
  const auto ranks = static_cast<size_t>(party.size());
  for (size_t index = 0; index < pieces.size(); ++index) {
    SumInOrder({inputs.data() + index * ranks, ranks}, pieces[index].elements, reduction.dtype,
               reduction.scale, pieces[index].receive);
  }
}

// Everybody sends everything to everybody: one round.
void GlooTransport::AllReduceSmall(const Call& call, std::span<const AllReducePiece> pieces,
                                   const Reduction& reduction) {
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(reduction.dtype));
  const Party party = PartyOf(call);
  const auto ranks = static_cast<size_t>(party.size());
  size_t scratch_bytes = 0;
  for (const AllReducePiece& piece : pieces) {
    scratch_bytes += AlignedUp(piece.elements * element_bytes) * ranks;
  }
  const Scratch scratch(call, scratch_bytes);
  std::vector<GatherPiece> gathers;
  std::byte* free = scratch.data();
  for (const AllReducePiece& piece : pieces) {
    const size_t bytes = piece.elements * element_bytes;
    gathers.push_back({piece.data, free, bytes});
    free += AlignedUp(bytes) * ranks;
  }
  const std::vector<Message> messages = GatherMessages(party, gathers);
  Exchange(call, OpKind::kAllReduce,
           TagOf(OpKind::kAllReduce, call.communicator, pieces, reduction), messages, [] {});
  for (size_t index = 0; index < pieces.size(); ++index) {
    std::vector<const std::byte*> inputs;
    for (size_t place = 0; place < ranks; ++place) {
      inputs.push_back(static_cast<int>(place) == party.place()
                           ? pieces[index].data
                           : gathers[index].receive + place * gathers[index].bytes);
    }
    SumInOrder(inputs, pieces[index].elements, reduction.dtype, reduction.scale,
               pieces[index].data);
  }
}

// A reduce-scatter of a chunk to each rank, then an all-gather of the chunks in place.
void GlooTransport::AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                              const Reduction& reduction) {
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(reduction.dtype));
  size_t all_bytes = 0;
  for (const AllReducePiece& piece : pieces) all_bytes += piece.elements * element_bytes;
  if (all_bytes <= kSmallReduceBytes) return AllReduceSmall(call, pieces, reduction);

  const Party party = PartyOf(call);
  const auto own_chunk = [&](const AllReducePiece& piece) {
    return ChunkAt(piece, party.place(), party.size(), element_bytes);
  };
  size_t scratch_bytes = 0;
  for (const AllReducePiece& piece : pieces) {
    scratch_bytes += AlignedUp(own_chunk(piece).elements * element_bytes) *
                     static_cast<size_t>(party.size() - 1);
  }
  const Scratch scratch(call, scratch_bytes);
  const AllReduceMessages messages =
      MessagesOfAllReduce(party, pieces, element_bytes, scratch.data());
  Exchange(call, OpKind::kAllReduce,
           TagOf(OpKind::kAllReduce, call.communicator, pieces, reduction), messages.reduces,
           [] {});
  const auto ranks = static_cast<size_t>(party.size());
  for (size_t index = 0; index < pieces.size(); ++index) {
    const ReduceChunk own = own_chunk(pieces[index]);
    SumInOrder({messages.inputs.data() + index * ranks, ranks}, own.elements, reduction.dtype,
               reduction.scale, own.data);
  }
  Exchange(call, OpKind::kAllReduce,
           TagOf(OpKind::kAllReduce, call.communicator, pieces, reduction,
                 /*is_second_half=*/true),
           messages.gathers, [] {});
}

void GlooTransport::Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) {
  const Party party = PartyOf(call);
  const bool is_root = party.place() == call.root;
  std::vector<Message> messages;
  for (const int other : OthersOf(party)) {
    if (!is_root && other != call.root) continue;
    for (const BroadcastPiece& piece : pieces) {
      if (piece.bytes == 0) continue;
      messages.push_back({.peer = party.RankAt(other),
                          .receive = is_root ? nullptr : piece.data,
                          .send = is_root ? piece.data : nullptr,
                          .bytes = piece.bytes});
    }
  }
  Exchange(call, OpKind::kBroadcast, TagOf(OpKind::kBroadcast, call.communicator, pieces), messages,
           [] {});
}

int64_t GlooTransport::Broadcast(int rank, int64_t value) {
  const Call call = {.rank = rank, .communicator = kHostBroadcast, .op_name = "control"};
  std::vector<int64_t> values(static_cast<size_t>(num_ranks_));
  values[static_cast<size_t>(rank)] = value;
  const GatherPiece piece = {reinterpret_cast<const std::byte*>(&value),
                             reinterpret_cast<std::byte*>(values.data()), sizeof(value)};
  const std::vector<Message> messages = GatherMessages(PartyOf(call), {&piece, 1});
  Exchange(call, OpKind::kBroadcast,
           TagOf(OpKind::kBroadcast, kHostBroadcast, std::span<const GatherPiece>()), messages,
           [] {});
  return values.front();
}

// Where the rank is, for those that miss it.
void GlooTransport::TellPlace(const Call& call, OpKind kind) {
  store_->Set(PlaceKey(call.rank), std::to_string(call.communicator) + " " +
                                       std::to_string(call.step) + " " + std::to_string(call.op) +
                                       " " + std::string(Name(kind)) + " " +
                                       std::string(call.op_name));
}

std::optional<GlooTransport::ToldPlace> GlooTransport::ReadPlace(int rank) {
  const std::string told = store_->Get(PlaceKey(rank));
  if (told.empty()) return std::nullopt;
  std::string_view text = told;
  const auto number = [&] { return std::atol(std::string(TakeField(&text, ' ')).c_str()); };
  ToldPlace place;
  place.at.rank = rank;
  place.communicator = static_cast<plan::CommunicatorIndex>(number());
  place.at.step = number();
  place.at.op = static_cast<plan::OpIndex>(number());
  place.at.kind = TakeField(&text, ' ');
  place.at.op_name = text;
  return place;
}

// What is to be said if ranks that are missing in `call` have told that they are at a later op of
// its communicator; else empty.
std::string GlooTransport::WhoLeftOut(const Call& call, OpKind kind, std::span<const int> missing) {
  if (call.op == plan::kNone || IsPair(call.communicator)) return "";
  std::vector<int> waiting;
  std::vector<CallPlace> ahead;
  for (const int rank : PartyOf(call).Ranks()) {
    const std::optional<ToldPlace> told = ReadPlace(rank);
    if (!told || told->communicator != call.communicator || told->at.step != call.step) continue;
    if (told->at.op == call.op) waiting.push_back(rank);
    if (told->at.op > call.op && std::ranges::count(missing, rank) > 0) ahead.push_back(told->at);
  }
  return ahead.empty() ? "" : DescribeLeftOut(PlaceOf(call, kind), waiting, ahead);
}

// "rank 0, which waits in all_reduce 'O all_reduce' (op 94), has not come", if it has told so.
std::string GlooTransport::Whereabouts(int rank) {
  const std::optional<ToldPlace> told = ReadPlace(rank);
  if (!told) return Described(rank);
  return "rank " + std::to_string(rank) + ", which waits in " + InWords(told->at) +
         ", has not come";
}

void GlooTransport::Fail(const Call& call, OpKind kind, std::vector<int> missing, bool timed_out) {
  stop_reason_.ThrowIfSet();
  TellPlace(call, kind);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  // A rank that closed the connection on purpose says why. One that has waited too long may have
  // run ahead itself: those that it left behind can tell.
  const int64_t until_ns = MonotonicNs() + std::min(kReasonNs, timeout_ns_) / (timed_out ? 2 : 1);
  do {
    if (const std::optional<std::string> said = stop_reason_.WaitFor(0)) {
      Stop(*said, false);
      throw TransportError("aborted: " + *said);
    }
    if (const std::string left_out = WhoLeftOut(call, kind, missing); !left_out.empty()) {
      Stop(left_out, true);
      throw TransportTimeout(left_out);
    }
    // After a step's last op there is no later one: the rank has waited too long between steps.
    if (call.op != plan::kNone && std::ranges::any_of(missing, [&](int rank) {
          const std::optional<ToldPlace> told = ReadPlace(rank);
          return told && told->at.op == plan::kNone;
        })) {
      timed_out = true;
      break;
    }
  } while (MonotonicNs() < until_ns);
  const std::string where = "rank " + std::to_string(call.rank) + " waits for " +
                            (missing.size() == 1 ? "it" : "them") + " in " +
                            InWords(PlaceOf(call, kind));
  std::vector<std::string> described;
  for (const int rank : missing) {
    described.push_back(timed_out ? Whereabouts(rank)
                                  : "rank " + std::to_string(rank) + " is gone");
  }
  const std::string reason =
      timed_out ? Join(described, "; ") + "; " + where +
                      ", longer than comm.timeout=" + FormatDuration(timeout_ns_)
                : Join(described, "; ") + " (its process ended or the connection broke); " + where;
  Stop(reason, true);
  throw TransportTimeout(reason);  // it will never come
}

// `is_first`: the other ranks have to be told.
void GlooTransport::Stop(const std::string& reason, bool is_first) {
  if (!stop_reason_.Set(reason, is_first)) return;
  for (const std::unique_ptr<Mesh>& mesh : meshes_) {
    if (mesh != nullptr) mesh->Close();
  }
}

void GlooTransport::Abort(const std::string& reason) {
  Stop(reason.empty() ? "no reason given" : reason, true);
}

}  // namespace

std::unique_ptr<Transport> MakeGlooTransport(int num_ranks, int64_t timeout_ns) {
  auto transport = std::make_unique<GlooTransport>(num_ranks, 0, timeout_ns, Store::InProcess());
  transport->Connect(num_ranks, true, kConnectNs);
  return transport;
}

std::unique_ptr<Transport> MakeGlooTransport(const GlooProcess& process, int64_t timeout_ns) {
  const std::string& address = process.master_address;
  const bool is_loopback =
      address == "localhost" || address == "::1" || address.starts_with("127.");
  Patience patience(process, timeout_ns);
  std::unique_ptr<Store> store = Store::OfProcesses(process, &patience);
  Meet(process, store.get(), &patience);
  auto transport = std::make_unique<GlooTransport>(process.num_ranks, process.rank, timeout_ns,
                                                   std::move(store));
  transport->Connect(1, is_loopback, std::max(patience.LeftNs(), kNsPerSecond));
  return transport;
}

void StayAway(const GlooProcess& process, const std::string& reason, int64_t telling_ns) {
  if (process.num_ranks == 1) return;
  Patience patience(process, telling_ns);
  try {
    Refuse(process, reason, Store::OfProcesses(process, &patience).get(), patience);
  } catch (const TransportError&) {  // it has no port to tell
  }
}

}  // namespace shardscope::transport
