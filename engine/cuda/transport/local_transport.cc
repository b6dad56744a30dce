#include "engine/cuda/transport/local_transport.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/cuda/transport/local_shares.h"
#include "engine/transport/rendezvous.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using transport::AllReducePiece;
using transport::Announcement;
using transport::Call;
using transport::GatherPiece;
using transport::ReducePiece;
using transport::Reduction;
using transport::Rendezvous;
using transport::TransportError;
using transport::TransportTimeout;

// A wait in a kernel ends after this and four times the longest transfer so far, whatever happens:
// no more than a handful of collectives can be ahead of one on the wire.
constexpr uint64_t kSpinSlackNs = 1'000'000'000;
constexpr uint64_t kTransfersAhead = 4;

// The emulated wire as the host knows it.
struct Wire {
  double bytes_per_second = 1;
  int64_t latency_ns = 0;
  uint64_t longest_ns = 0;  // latency and transfer, of any collective so far
};

// What one communicator needs again and again. An event may be recorded anew while streams still
// wait for its last recording: a wait takes the recording that was there when it was asked for.
struct Meeting {
  std::vector<Event> arrived;  // by rank
  std::vector<Event> done;     // by rank
  Event all_arrived = nullptr;
  Event all_done = nullptr;
  LinkWindow* window = nullptr;  // on the device; one collective of a communicator runs at a time
};

class LocalTransport final : public transport::Transport {
 public:
  LocalTransport(const LocalTransportOptions& options, bool has_link)
      : options_(options),
        has_link_(has_link),
        capabilities_{has_link ? "emulated" : "local", has_link ? "emulated" : "measured",
                      has_link},
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
  static size_t Index(int rank) { return static_cast<size_t>(rank); }

  void Issue(const Announcement& announcement);
  Rendezvous& RendezvousOf(plan::CommunicatorIndex communicator);
  Meeting& MeetingOf(plan::CommunicatorIndex communicator);
  void AbortAll(const std::string& reason, bool is_timeout);

  // By the rank that comes last, while all others wait.
  void EnqueueForAll(Announced announced);
  Pace ReserveWire(Announced announced, Meeting* meeting);
  void Join(Announced announced, const std::vector<Event>& events, Event together);
  template <typename Work>
  void EachRank(Announced announced, const Work& work);

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
  uint64_t* free_from_ns_ GUARDED_BY(mutex_) =
      nullptr;                                       // on the device: the wire of all communicators
  Event wire_is_zero_ GUARDED_BY(mutex_) = nullptr;  // after its zeroing
  std::map<int32_t, Rendezvous> communicators_
      GUARDED_BY(mutex_);  // made at first use; addresses are stable
  std::map<int32_t, Meeting> meetings_ GUARDED_BY(mutex_);  // likewise
  std::string abort_reason_ GUARDED_BY(mutex_);
  bool is_timeout_ GUARDED_BY(mutex_) = false;
};

// No step runs. What fails here has no remedy.
LocalTransport::~LocalTransport() {
  for (auto& [communicator, meeting] : meetings_) {
    for (const Event event : meeting.arrived) static_cast<void>(options_.api.EventDestroy(event));
    for (const Event event : meeting.done) static_cast<void>(options_.api.EventDestroy(event));
    static_cast<void>(options_.api.EventDestroy(meeting.all_arrived));
    static_cast<void>(options_.api.EventDestroy(meeting.all_done));
    static_cast<void>(options_.api.Free(meeting.window));
  }
  static_cast<void>(options_.api.Free(free_from_ns_));
  if (wire_is_zero_ != nullptr) static_cast<void>(options_.api.EventDestroy(wire_is_zero_));
}

Rendezvous& LocalTransport::RendezvousOf(plan::CommunicatorIndex communicator) {
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = communicators_.try_emplace(
      communicator, options_.num_ranks, options_.timeout_ns,
      [this](Announced announced) {
        EnqueueForAll(announced);
        return 0;
      },
      [this](int rank) { return Described(rank); });
  if (is_new && !abort_reason_.empty()) entry->second.Abort(abort_reason_, is_timeout_);
  return entry->second;
}

Meeting& LocalTransport::MeetingOf(plan::CommunicatorIndex communicator) {
  const MutexLock lock(mutex_);
  const auto [entry, is_new] = meetings_.try_emplace(communicator);
  Meeting& meeting = entry->second;
  if (!is_new) return meeting;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    meeting.arrived.push_back(NewEvent());
    meeting.done.push_back(NewEvent());
  }
  meeting.all_arrived = NewEvent();
  meeting.all_done = NewEvent();
  return meeting;
}

void LocalTransport::Issue(const Announcement& announcement) {
  const Call& call = announcement.call;
  // Before the others can know of it: see above.
  RecordOn(call.device_stream, MeetingOf(call.communicator).arrived[Index(call.rank)]);
  try {
    RendezvousOf(call.communicator).Meet(announcement);
  } catch (const TransportTimeout& error) {
    AbortAll(error.what(), /*is_timeout=*/true);
    throw;
  } catch (const std::exception& error) {
    Abort(error.what());
    throw;
  }
}

// Lets `work` put a rank's share on its stream, and tells the log whose op that was.
template <typename Work>
void LocalTransport::EachRank(Announced announced, const Work& work) {
  for (const Announcement& one : announced) {
    cupti::HostOp issued;
    issued.key = OpRunKey(one.call.rank, one.call.step, one.call.op);
    issued.thread = static_cast<uint32_t>(gettid());
    issued.start_ns = MonotonicNs();
    work(one.call.rank);
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
  Meeting& meeting = MeetingOf(announced.front().call.communicator);
  const Stream lead = StreamOf(announced.front());
  for (const Event event : meeting.arrived) WaitOn(lead, event);
  const Pace pace = ReserveWire(announced, &meeting);
  RecordOn(lead, meeting.all_arrived);
  for (const Announcement& one : announced.subspan(1)) WaitOn(StreamOf(one), meeting.all_arrived);

  const transport::Pieces& pieces = announced.front().pieces;
  const bool is_gather = std::holds_alternative<std::span<const GatherPiece>>(pieces);
  const bool is_all_reduce = std::holds_alternative<std::span<const AllReducePiece>>(pieces);
  if (is_all_reduce) {
    // Nobody may fetch a chunk before it is summed.
    const auto part = [&](double from, double to) {
      return Pace{pace.window, from, to, pace.limit_ns};
    };
    EachRank(announced, [&](int rank) {
      shares_.ChunkSums(announced, rank, part(0, 0.5));
      RecordOn(StreamOf(announced[Index(rank)]), meeting.done[Index(rank)]);
    });
    Join(announced, meeting.done, meeting.all_done);
    EachRank(announced, [&](int rank) {
      shares_.ChunkCopies(announced, rank, part(0.5, 1));
      RecordOn(StreamOf(announced[Index(rank)]), meeting.done[Index(rank)]);
    });
  } else {
    EachRank(announced, [&](int rank) {
      is_gather ? shares_.Gather(announced, rank, pace) : shares_.Reduce(announced, rank, pace);
      RecordOn(StreamOf(announced[Index(rank)]), meeting.done[Index(rank)]);
    });
  }
  // What a rank sent may change or go once all have read it.
  Join(announced, meeting.done, meeting.all_done);
}

// On rank 0's stream, when all have arrived there; the result holds for all streams.
Pace LocalTransport::ReserveWire(Announced announced, Meeting* meeting) {
  if (!has_link_ || options_.num_ranks == 1) return {};
  const Stream lead = StreamOf(announced.front());
  int64_t wire_bytes = 0;
  for (const Announcement& one : announced) wire_bytes = std::max(wire_bytes, one.call.wire_bytes);
  const MutexLock lock(mutex_);
  if (meeting->window == nullptr) meeting->window = NewOnDevice<LinkWindow>(lead);
  if (free_from_ns_ == nullptr) {
    free_from_ns_ = NewOnDevice<uint64_t>(lead);
    wire_is_zero_ = NewEvent();
    RecordOn(lead, wire_is_zero_);
  }
  WaitOn(lead, wire_is_zero_);  // another communicator may have made the wire on its own stream
  const double seconds = static_cast<double>(wire_bytes) / wire_.bytes_per_second;
  const LinkRequest request{static_cast<uint64_t>(wire_.latency_ns),
                            static_cast<uint64_t>(std::ceil(seconds * kNsPerSecond))};
  wire_.longest_ns = std::max(wire_.longest_ns, request.latency_ns + request.transfer_ns);
  options_.kernels->Reserve(free_from_ns_, meeting->window, request, lead);
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
    for (auto& [communicator, one] : communicators_) rendezvous.push_back(&one);
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
