#include "engine/cuda/transport/local_transport.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/cuda/transport/kernels.h"
#include "engine/transport/reduce.h"
#include "engine/transport/rendezvous.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/words.h"

namespace shardscope::cuda {
namespace {

using transport::AllReducePiece;
using transport::Announcement;
using transport::BroadcastPiece;
using transport::Call;
using transport::ChunkOf;
using transport::GatherPiece;
using transport::Party;
using transport::ReducePiece;
using transport::Reduction;
using transport::Rendezvous;
using transport::TransportError;
using transport::TransportTimeout;

size_t Index(int place) { return static_cast<size_t>(place); }

// Splits a collective's time among its pieces by their sizes.
class PaceOfPieces {
 public:
  PaceOfPieces(const Pace& pace, size_t all) : pace_(pace), all_(std::max<size_t>(all, 1)) {}
  Pace Next(size_t size) {
    const double from = At(before_);
    before_ += size;
    return {pace_.window, from, At(before_), pace_.limit_ns};
  }

 private:
  double At(size_t sum) const {
    return pace_.from +
           (pace_.to - pace_.from) * static_cast<double>(sum) / static_cast<double>(all_);
  }
  const Pace pace_;
  const size_t all_;
  size_t before_ = 0;
};

template <typename Piece>
std::span<const Piece> PiecesOf(const Announcement& one) {
  return std::get<std::span<const Piece>>(one.pieces);
}

// What the ranks of a group have announced, by their places in it, which number them below.
using Announced = std::span<const transport::Announcement>;

// What one rank does of a collective among virtual ranks, put on that rank's stream: copies and
// sums of pieces that all lie on one GPU. The caller has made the rank's stream wait for what it
// reads, and makes the others' streams wait for what it writes. A pace with a window spreads the
// work over that time; without one it goes as fast as it can. Threads: any, for different ranks.
class LocalShares {
 public:
  explicit LocalShares(const LocalTransportOptions& options) : options_(options) {}

  // Every piece of every rank to its place here.
  void Gather(Announced announced, int place, const Pace& pace) const {
    const std::span<const GatherPiece> own = PiecesOf<GatherPiece>(announced[Index(place)]);
    const Stream stream = announced[Index(place)].call.device_stream;
    if (!Needs(announced[Index(place)], place)) return;
    size_t all = 0;
    for (const GatherPiece& piece : own) all += piece.bytes;
    PaceOfPieces paces(pace, all);
    for (size_t index = 0; index < own.size(); ++index) {
      CopyTask task{.num_inputs = NumRanks(announced),
                    .output = own[index].receive,
                    .bytes = own[index].bytes};
      for (int from = 0; from < NumRanks(announced); ++from) {
        task.inputs[from] = PiecesOf<GatherPiece>(announced[Index(from)])[index].send;
      }
      if (task.bytes == 0) continue;
      if (pace.window != nullptr) {
        options_.kernels->Copy(task, paces.Next(own[index].bytes), stream);
        continue;
      }
      for (int from = 0; from < NumRanks(announced); ++from) {
        std::byte* to = own[index].receive + Index(from) * task.bytes;
        if (to == task.inputs[from]) continue;
        Check(options_.api, "cudaMemcpyAsync",
              options_.api.MemcpyAsync(to, task.inputs[from], task.bytes, kCopyDefault, stream));
      }
    }
  }

  // The rank's chunk of every piece, summed in rank order.
  void Reduce(Announced announced, int place, const Pace& pace) const {
    SumPieces<ReducePiece>(announced, place, pace, [&](const ReducePiece& own) {
      return Chunk{own.receive, Index(place) * own.elements, own.elements};
    });
  }

  // An all-reduce in two parts: each rank sums its chunk of all ranks' data into its own (no other
  // rank reads that chunk there), and once all have done that fetches the others' chunks.
  void ChunkSums(Announced announced, int place, const Pace& pace) const {
    const auto element_bytes = ElementBytes(announced[Index(place)]);
    SumPieces<AllReducePiece>(announced, place, pace, [&](const AllReducePiece& own) {
      const auto [begin, end] = ChunkOf(own.elements, place, NumRanks(announced));
      return Chunk{own.data + begin * element_bytes, begin, end - begin};
    });
  }
  void ChunkCopies(Announced announced, int place, const Pace& pace) const {
    const Announcement& mine = announced[Index(place)];
    if (!Needs(mine, place)) return;
    const std::span<const AllReducePiece> own = PiecesOf<AllReducePiece>(mine);
    const size_t element_bytes = ElementBytes(mine);
    size_t all = 0;
    for (const AllReducePiece& piece : own) {
      const auto [begin, end] = ChunkOf(piece.elements, place, NumRanks(announced));
      all += piece.elements - (end - begin);
    }
    PaceOfPieces paces(pace, all);
    for (size_t index = 0; index < own.size(); ++index) {
      for (int from = 0; from < NumRanks(announced); ++from) {
        const auto [begin, end] = ChunkOf(own[index].elements, from, NumRanks(announced));
        if (from == place || begin == end) continue;
        const std::byte* source = PiecesOf<AllReducePiece>(announced[Index(from)])[index].data;
        const CopyTask task{.inputs = {source + begin * element_bytes},
                            .num_inputs = 1,
                            .output = own[index].data + begin * element_bytes,
                            .bytes = (end - begin) * element_bytes};
        options_.kernels->Copy(task, paces.Next(end - begin), mine.call.device_stream);
      }
    }
  }

  // The root's pieces to here.
  void Fetch(Announced announced, int place, const Pace& pace) const {
    const Announcement& mine = announced[Index(place)];
    if (place == mine.call.root) return;
    const std::span<const BroadcastPiece> own = PiecesOf<BroadcastPiece>(mine);
    size_t all = 0;
    for (const BroadcastPiece& piece : own) all += piece.bytes;
    PaceOfPieces paces(pace, all);
    for (size_t index = 0; index < own.size(); ++index) {
      if (own[index].bytes == 0) continue;
      const BroadcastPiece& root =
          PiecesOf<BroadcastPiece>(announced[Index(mine.call.root)])[index];
      const std::byte* from = root.data + Index(place) * root.slot_bytes;
      const CopyTask task{
          .inputs = {from}, .num_inputs = 1, .output = own[index].data, .bytes = own[index].bytes};
      options_.kernels->Copy(task, paces.Next(own[index].bytes), mine.call.device_stream);
    }
  }

 private:
  // Whether the rank at `place` needs the result.
  static bool Needs(const Announcement& mine, int place) {
    return mine.call.root == plan::kNone || mine.call.root == place;
  }
  // What a rank sums of a piece.
  struct Chunk {
    std::byte* output = nullptr;
    size_t first = 0;  // element of the ranks' memory
    size_t elements = 0;
  };

  static int NumRanks(Announced announced) { return static_cast<int>(announced.size()); }
  static const std::byte* InputOf(const ReducePiece& piece) { return piece.send; }
  static const std::byte* InputOf(const AllReducePiece& piece) { return piece.data; }
  static size_t ElementBytes(const Announcement& one) {
    return static_cast<size_t>(plan::BytesOf(one.reduction.dtype));
  }

  // `chunk_of` a piece of the rank's own.
  template <typename Piece, typename ChunkOfPiece>
  void SumPieces(Announced announced, int place, const Pace& pace,
                 const ChunkOfPiece& chunk_of) const {
    const Announcement& mine = announced[Index(place)];
    const std::span<const Piece> own = PiecesOf<Piece>(mine);
    size_t all = 0;
    for (const Piece& piece : own) all += piece.elements;
    PaceOfPieces paces(pace, all);
    for (size_t index = 0; index < own.size(); ++index) {
      const Pace piece_pace = paces.Next(own[index].elements);
      const Chunk chunk = chunk_of(own[index]);
      if (chunk.elements == 0) continue;
      SumTask task{.num_inputs = NumRanks(announced),
                   .output = chunk.output,
                   .elements = chunk.elements,
                   .dtype = mine.reduction.dtype,
                   .scale = mine.reduction.scale};
      for (int from = 0; from < NumRanks(announced); ++from) {
        task.inputs[from] = InputOf(PiecesOf<Piece>(announced[Index(from)])[index]) +
                            chunk.first * ElementBytes(mine);
      }
      options_.kernels->Sum(task, piece_pace, mine.call.device_stream);
    }
  }

  const LocalTransportOptions options_;
};

// A wait in a kernel ends after this and four times the longest transfer so far, whatever happens:
// no more than a handful of collectives can be ahead of one on the wire.
constexpr uint64_t kSpinSlackNs = 1'000'000'000;
constexpr uint64_t kTransfersAhead = 4;

// The emulated wire as the host has it.
struct Wire {
  double bytes_per_second = 1;
  int64_t latency_ns = 0;
  uint64_t longest_ns = 0;  // latency and transfer, of any collective so far
};

// What one group of a communicator needs again and again. An event may be recorded anew while
// streams still wait for its last recording: a wait takes the recording that was there when it was
// asked for.
struct Meeting {
  std::vector<Event> arrived;  // by place
  std::vector<Event> done;     // by place
  Event all_arrived = nullptr;
  Event all_done = nullptr;
  LinkWindow* window = nullptr;  // on the device; one collective of a group runs at a time
};

class LocalTransport final : public transport::Transport {
 public:
  LocalTransport(const LocalTransportOptions& options, bool has_link)
      : options_(options),
        has_link_(has_link),
        capabilities_{has_link ? "emulated" : "local",
                      has_link ? words::Truth::kEmulated : words::Truth::kMeasured, has_link},
        shares_(options),
        host_(transport::MakeSharedMemoryTransport(options.num_ranks, options.timeout_ns)) {
    if (options.num_ranks > kMaxLocalRanks) {
      throw TransportError("transport " + capabilities_.name + ": " +
                           std::to_string(options.num_ranks) + " ranks on one GPU, at most " +
                           std::to_string(kMaxLocalRanks) + " are possible; lower run.ranks");
    }
    host_->set_describe_rank([this](int rank) { return Described(rank); });
  }
  ~LocalTransport() override;

  const transport::Capabilities& capabilities() const override { return capabilities_; }

  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override {
    if (call.device_stream == nullptr) return host_->AllGather(call, pieces);
    Issue({call, pieces, {}});
  }
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const Reduction& reduction) override {
    if (call.device_stream == nullptr) return host_->ReduceScatter(call, pieces, reduction);
    Issue({call, pieces, reduction});
  }
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const Reduction& reduction) override {
    if (call.device_stream == nullptr) return host_->AllReduce(call, pieces, reduction);
    Issue({call, pieces, reduction});
  }
  void Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) override {
    if (call.device_stream == nullptr) return host_->Broadcast(call, pieces);
    Issue({call, pieces, {}});
  }
  int64_t Broadcast(int rank, int64_t value) override { return host_->Broadcast(rank, value); }
  void Abort(const std::string& reason) override { AbortAll(reason, /*is_timeout=*/false); }
  void SetLink(double bytes_per_second, int64_t latency_ns) override {
    SHARDSCOPE_CHECK(bytes_per_second > 0 && latency_ns >= 0);
    const MutexLock lock(mutex_);
    wire_.bytes_per_second = bytes_per_second;
    wire_.latency_ns = latency_ns;
  }

 private:
  static Stream StreamOf(const Announcement& one) { return one.call.device_stream; }

  void Issue(const Announcement& announcement);
  // Communicator and the ranks of a group.
  using Key = std::pair<int32_t, std::vector<int>>;
  Key KeyOf(const Call& call) const { return {call.communicator, RanksOf(call)}; }
  std::vector<int> RanksOf(const Call& call) const;
  Rendezvous& RendezvousOf(const Call& call);
  Meeting& MeetingOf(const Call& call);
  void AbortAll(const std::string& reason, bool is_timeout);

  // By the rank that comes last, while all others wait.
  void EnqueueForAll(Announced announced);
  Pace ReserveWire(Announced announced, Meeting* meeting);
  void Join(Announced announced, const std::vector<Event>& events, Event together);
  template <typename Work>
  void EachPlace(Announced announced, const Work& work);

  void RecordOn(Stream stream, Event event) {
    Check(options_.api, "cudaEventRecord", options_.api.EventRecord(event, stream));
  }
  void WaitOn(Stream stream, Event event) {
    Check(options_.api, "cudaStreamWaitEvent", options_.api.StreamWaitEvent(stream, event, 0));
  }
  Event NewEvent() {
    Event event = nullptr;
    Check(options_.api, "cudaEventCreateWithFlags",
          options_.api.EventCreateWithFlags(&event, kEventDisableTiming));
    return event;
  }
  template <typename Value>
  Value* NewOnDevice(Stream stream) {
    void* memory = nullptr;
    Check(options_.api, "cudaMalloc", options_.api.Malloc(&memory, sizeof(Value)));
    Check(options_.api, "cudaMemsetAsync",
          options_.api.MemsetAsync(memory, 0, sizeof(Value), stream));
    return static_cast<Value*>(memory);
  }

  const LocalTransportOptions options_;
  const bool has_link_;
  const transport::Capabilities capabilities_;
  const LocalShares shares_;
  const std::unique_ptr<transport::Transport> host_;

  Mutex mutex_;
  Wire wire_ GUARDED_BY(mutex_);
  LinkWires* wires_ GUARDED_BY(mutex_) = nullptr;      // on the device
  Event wires_are_zero_ GUARDED_BY(mutex_) = nullptr;  // after their zeroing
  // Made at first use, with stable addresses.
  std::map<Key, Rendezvous> groups_ GUARDED_BY(mutex_);
  std::map<Key, Meeting> meetings_ GUARDED_BY(mutex_);
  std::string abort_reason_ GUARDED_BY(mutex_);
  bool is_timeout_ GUARDED_BY(mutex_) = false;
};

// No step runs. What fails here has no remedy.
LocalTransport::~LocalTransport() {
  for (auto& [group, meeting] : meetings_) {
    for (const Event event : meeting.arrived) static_cast<void>(options_.api.EventDestroy(event));
    for (const Event event : meeting.done) static_cast<void>(options_.api.EventDestroy(event));
    static_cast<void>(options_.api.EventDestroy(meeting.all_arrived));
    static_cast<void>(options_.api.EventDestroy(meeting.all_done));
    static_cast<void>(options_.api.Free(meeting.window));
  }
  static_cast<void>(options_.api.Free(wires_));
  if (wires_are_zero_ != nullptr) {
    static_cast<void>(options_.api.EventDestroy(wires_are_zero_));
  }
}

std::vector<int> LocalTransport::RanksOf(const Call& call) const {
  return Party(call, options_.num_ranks).Ranks();
}

Rendezvous& LocalTransport::RendezvousOf(const Call& call) {
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = groups_.try_emplace(
      KeyOf(call), RanksOf(call), options_.timeout_ns,
      [this](Announced announced) {
        EnqueueForAll(announced);
        return 0;
      },
      [this](int rank) { return Described(rank); });
  if (is_new && !abort_reason_.empty()) entry->second.Abort(abort_reason_, is_timeout_);
  return entry->second;
}

Meeting& LocalTransport::MeetingOf(const Call& call) {
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = meetings_.try_emplace(KeyOf(call));
  Meeting& meeting = entry->second;
  if (!is_new) return meeting;
  const int num_ranks = Party(call, options_.num_ranks).size();
  for (int place = 0; place < num_ranks; ++place) {
    meeting.arrived.push_back(NewEvent());
    meeting.done.push_back(NewEvent());
  }
  meeting.all_arrived = NewEvent();
  meeting.all_done = NewEvent();
  return meeting;
}

void LocalTransport::Issue(const Announcement& announcement) {
  const Call& call = announcement.call;
  // Before the others can see it: see above.
  RecordOn(call.device_stream,
           MeetingOf(call).arrived[Index(Party(call, options_.num_ranks).place())]);
  try {
    RendezvousOf(call).Meet(announcement);
  } catch (const TransportTimeout& error) {
    AbortAll(error.what(), /*is_timeout=*/true);
    throw;
  } catch (const std::exception& error) {
    Abort(error.what());
    throw;
  }
}

// Lets `work` put a place's share on its rank's stream, and tells the log whose op that was.
template <typename Work>
void LocalTransport::EachPlace(Announced announced, const Work& work) {
  for (size_t place = 0; place < announced.size(); ++place) {
    const Announcement& one = announced[place];
    cupti::HostOp issued;
    issued.key = OpRunKey(one.call.rank, one.call.step, one.call.op);
    issued.thread = static_cast<uint32_t>(gettid());
    issued.start_ns = MonotonicNs();
    work(static_cast<int>(place));
    issued.end_ns = MonotonicNs();
    if (options_.log != nullptr) options_.log->OnIssued(issued);
  }
}

// Every stream goes on when all have come to their `events`.
void LocalTransport::Join(Announced announced, const std::vector<Event>& events, Event together) {
  const Stream lead = StreamOf(announced.front());
  for (const Event event : events) WaitOn(lead, event);
  RecordOn(lead, together);
  for (const Announcement& one : announced.subspan(1)) WaitOn(StreamOf(one), together);
}

void LocalTransport::EnqueueForAll(Announced announced) {
  Meeting& meeting = MeetingOf(announced.front().call);
  const Stream lead = StreamOf(announced.front());
  for (const Event event : meeting.arrived) WaitOn(lead, event);
  const Pace pace = ReserveWire(announced, &meeting);
  RecordOn(lead, meeting.all_arrived);
  for (const Announcement& one : announced.subspan(1)) WaitOn(StreamOf(one), meeting.all_arrived);

  const transport::Pieces& pieces = announced.front().pieces;
  const bool is_gather = std::holds_alternative<std::span<const GatherPiece>>(pieces);
  const bool is_broadcast = std::holds_alternative<std::span<const BroadcastPiece>>(pieces);
  const bool is_all_reduce = std::holds_alternative<std::span<const AllReducePiece>>(pieces);
  if (is_all_reduce) {
    // No rank may fetch a chunk before it is summed.
    const auto part = [&](double from, double to) {
      return Pace{pace.window, from, to, pace.limit_ns};
    };
    EachPlace(announced, [&](int place) {
      shares_.ChunkSums(announced, place, part(0, 0.5));
      RecordOn(StreamOf(announced[Index(place)]), meeting.done[Index(place)]);
    });
    Join(announced, meeting.done, meeting.all_done);
    EachPlace(announced, [&](int place) {
      shares_.ChunkCopies(announced, place, part(0.5, 1));
      RecordOn(StreamOf(announced[Index(place)]), meeting.done[Index(place)]);
    });
  } else {
    EachPlace(announced, [&](int place) {
      if (is_broadcast) {
        shares_.Fetch(announced, place, pace);
      } else if (is_gather) {
        shares_.Gather(announced, place, pace);
      } else {
        shares_.Reduce(announced, place, pace);
      }
      RecordOn(StreamOf(announced[Index(place)]), meeting.done[Index(place)]);
    });
  }
  // What a rank sent may change or go once all have read it.
  Join(announced, meeting.done, meeting.all_done);
}

// On the first one's stream, when all have arrived there; the result holds for all streams.
Pace LocalTransport::ReserveWire(Announced announced, Meeting* meeting) {
  if (!has_link_ || announced.size() == 1) return {};
  const Stream lead = StreamOf(announced.front());
  int64_t wire_bytes = 0;
  uint32_t ranks = 0;
  for (const Announcement& one : announced) {
    wire_bytes = std::max(wire_bytes, one.call.wire_bytes);
    ranks |= 1U << one.call.rank;
  }
  const MutexLock lock(mutex_);
  if (meeting->window == nullptr) meeting->window = NewOnDevice<LinkWindow>(lead);
  if (wires_ == nullptr) {
    wires_ = NewOnDevice<LinkWires>(lead);
    wires_are_zero_ = NewEvent();
    RecordOn(lead, wires_are_zero_);
  }
  WaitOn(lead, wires_are_zero_);  // another communicator may have made them on its own stream
  // All links share a rank's wire here.
  const transport::CallLink& link = announced.front().call.link;
  const double rate = link.bytes_per_second > 0 ? link.bytes_per_second : wire_.bytes_per_second;
  const int64_t latency_ns = link.latency_ns >= 0 ? link.latency_ns : wire_.latency_ns;
  const double seconds = static_cast<double>(wire_bytes) / rate;
  const LinkRequest request{ranks, static_cast<uint64_t>(latency_ns),
                            static_cast<uint64_t>(std::ceil(seconds * kNsPerSecond))};
  wire_.longest_ns = std::max(wire_.longest_ns, request.latency_ns + request.transfer_ns);
  options_.kernels->Reserve(wires_, meeting->window, request, lead);
  return {meeting->window, 0, 1, kSpinSlackNs + kTransfersAhead * wire_.longest_ns};
}

// Without mutex_ while it calls: the rank that enqueues takes mutex_ inside its rendezvous.
void LocalTransport::AbortAll(const std::string& reason, bool is_timeout) {
  std::vector<Rendezvous*> rendezvous;  // they live as long as this
  std::string first_reason;
  bool is_first_timeout = false;
  {
    const MutexLock lock(mutex_);
    if (abort_reason_.empty()) {
      abort_reason_ = reason.empty() ? "no reason given" : reason;
      is_timeout_ = is_timeout;
    }
    first_reason = abort_reason_;
    is_first_timeout = is_timeout_;
    for (auto& [group, one] : groups_) rendezvous.push_back(&one);
  }
  host_->Abort(first_reason);
  for (Rendezvous* one : rendezvous) one->Abort(first_reason, is_first_timeout);
}

}  // namespace

std::unique_ptr<transport::Transport> MakeLocalTransport(const LocalTransportOptions& options) {
  return std::make_unique<LocalTransport>(options, /*has_link=*/false);
}

std::unique_ptr<transport::Transport> MakeEmulatedDeviceTransport(
    const LocalTransportOptions& options, double bytes_per_second, int64_t latency_ns) {
  auto made = std::make_unique<LocalTransport>(options, /*has_link=*/true);
  made->SetLink(bytes_per_second, latency_ns);
  return made;
}

}  // namespace shardscope::cuda
