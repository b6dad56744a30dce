#include "engine/cuda/transport/nccl_transport.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "engine/transport/between_steps.h"
#include "trace/base/check.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::cuda {
namespace {

using transport::AllReducePiece;
using transport::Call;
using transport::GatherPiece;
using transport::ReducePiece;
using transport::Reduction;
using transport::TransportError;
using transport::TransportTimeout;

// Between two looks at a call that NCCL has not finished yet.
constexpr std::chrono::microseconds kPollEvery(50);

ncclDataType_t TypeOf(plan::DType dtype) {
  switch (dtype) {
    case plan::DType::kFp32:
      return ncclFloat32;
    case plan::DType::kBf16:
      return ncclBfloat16;
    case plan::DType::kFp64:
      return ncclFloat64;
  }
  return ncclFloat32;
}

cudaStream_t StreamOf(const Call& call) { return static_cast<cudaStream_t>(call.device_stream); }

// A collective on its way.
struct Pending {
  Event ended = nullptr;
  int64_t number = 0;  // from 1
  int64_t issued_ns = 0;
  std::string op_name;
  plan::OpIndex op = plan::kNone;
};

// One rank's end of one communicator.
struct Channel {
  int rank = 0;
  plan::CommunicatorIndex communicator = 0;
  std::string name;  // what NCCL calls it; as long as the communicator lives

  std::atomic<int64_t> num_issued = 0;  // collectives

  std::mutex mutex;           // guards all below
  ncclComm_t comm = nullptr;  // null before it is made and after an abort
  int64_t last_end_ns = 0;    // when the watchdog saw a collective end
  std::deque<Pending> pending;
  std::vector<Event> free_events;
};

// Why everything stops.
struct Failure {
  std::string reason;
  bool is_timeout = false;
};

class NcclTransport final : public transport::Transport {
 public:
  NcclTransport(const NcclTransportOptions& options, std::unique_ptr<transport::Transport> host)
      : options_(options), host_(std::move(host)), watchdog_([this] { Watch(); }) {
    host_->set_describe_rank([this](int rank) { return Described(rank); });
  }
  ~NcclTransport() override;

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override;
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const Reduction& reduction) override;
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const Reduction& reduction) override;
  int64_t Broadcast(int rank, int64_t value) override { return host_->Broadcast(rank, value); }
  void Abort(const std::string& reason) override {
    Fail({reason.empty() ? "no reason given" : reason, /*is_timeout=*/false});
  }
  void SetLink(double /*bytes_per_second*/, int64_t /*latency_ns*/) override {}

 private:
  template <typename Enqueue>
  void Collective(const Call& call, const Enqueue& enqueue);
  Channel& ChannelOf(const Call& call);
  void Connect(Channel* channel);
  void Scale(void* data, size_t elements, const Reduction& reduction, Stream stream);

  // With channel->mutex held: `result` of a call to NCCL; waits until it is not in progress.
  void Settle(Channel* channel, const std::string& what, ncclResult_t result);
  std::string ErrorText(const Channel& channel, const std::string& what, ncclResult_t result) const;
  [[noreturn]] void ThrowAborted() const;

  void Watch();
  std::optional<Failure> Look(Channel* channel);
  Failure Timeout(const Channel& channel, const Pending& pending);
  void Fail(const Failure& failure);

  const NcclTransportOptions options_;
  const transport::Capabilities capabilities_{"nccl", "measured", false};
  const std::unique_ptr<transport::Transport> host_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::unique_ptr<Channel>> channels_;  // by rank, communicator
  std::optional<Failure> failure_;
  bool is_closing_ = false;
  std::atomic<bool> is_aborted_{false};  // as failure_, for loops that may not take mutex_

  std::thread watchdog_;  // last: it uses all of the above
};

// No step runs. ncclCommAbort rather than ncclCommDestroy: it is local and waits for no other rank,
// which may have gone.
NcclTransport::~NcclTransport() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }
  watchdog_.join();
  for (auto& [key, channel] : channels_) {
    if (channel->comm != nullptr) static_cast<void>(options_.nccl.CommAbort(channel->comm));
    for (const Pending& pending : channel->pending) channel->free_events.push_back(pending.ended);
    for (const Event event : channel->free_events) {
      static_cast<void>(options_.api.EventDestroy(event));
    }
  }
}

Channel& NcclTransport::ChannelOf(const Call& call) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Channel>& channel = channels_[{call.rank, call.communicator}];
  if (channel == nullptr) {
    channel = std::make_unique<Channel>();
    channel->rank = call.rank;
    channel->communicator = call.communicator;
  }
  return *channel;
}

// All ranks do so at the same place of their programs. On the rank's host thread, whose device is
// the rank's.
void NcclTransport::Connect(Channel* channel) {
  ncclUniqueId id = {};
  if (channel->rank == 0) {
    const ncclResult_t result = options_.nccl.GetUniqueId(&id);
    if (result != ncclSuccess) {
      throw TransportError(ErrorText(*channel, "no unique id for communicator", result));
    }
  }
  const std::string text = transport::BroadcastText(host_.get(), options_.num_ranks, channel->rank,
                                                    std::string(id.internal, sizeof(id.internal)));
  std::memcpy(id.internal, text.data(), sizeof(id.internal));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  channel->name = "shardscope" + std::to_string(channel->communicator);
  config.commName = channel->name.c_str();
  ncclComm_t comm = nullptr;
  const ncclResult_t result =
      options_.nccl.CommInitRankConfig(&comm, options_.num_ranks, id, channel->rank, &config);
  const std::lock_guard lock(channel->mutex);
  channel->comm = comm;
  Settle(channel, "cannot make communicator", result);
}

std::string NcclTransport::ErrorText(const Channel& channel, const std::string& what,
                                     ncclResult_t result) const {
  const char* details = options_.nccl.GetLastError(channel.comm);
  std::string text = "nccl: rank " + std::to_string(channel.rank) + ": " + what + " " +
                     std::to_string(channel.communicator) + ": " +
                     options_.nccl.GetErrorString(result);
  if (details != nullptr && *details != '\0') text += std::string(" (") + details + ")";
  return text + "; NCCL_DEBUG=INFO tells more";
}

void NcclTransport::Settle(Channel* channel, const std::string& what, ncclResult_t result) {
  const int64_t begin_ns = MonotonicNs();
  while (result == ncclInProgress) {
    if (is_aborted_) ThrowAborted();
    if (options_.timeout_ns > 0 && MonotonicNs() - begin_ns > options_.timeout_ns) {
      throw TransportTimeout(ErrorText(*channel, what, result) + "; not done after " +
                             FormatDuration(options_.timeout_ns));
    }
    std::this_thread::sleep_for(kPollEvery);
    const ncclResult_t asked = options_.nccl.CommGetAsyncError(channel->comm, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result != ncclSuccess) throw TransportError(ErrorText(*channel, what, result));
}

void NcclTransport::ThrowAborted() const {
  const std::lock_guard lock(mutex_);
  const Failure failure = failure_.value_or(Failure{"aborted"});
  if (failure.is_timeout) throw TransportTimeout(failure.reason);
  throw TransportError("aborted: " + failure.reason);
}

// Calls enqueue(comm) between the start and the end of a group: one kernel for all pieces.
template <typename Enqueue>
void NcclTransport::Collective(const Call& call, const Enqueue& enqueue) {
  if (is_aborted_) ThrowAborted();
  Channel& channel = ChannelOf(call);
  try {
    if (channel.num_issued == 0) Connect(&channel);
    const std::lock_guard lock(channel.mutex);
    if (channel.comm == nullptr) ThrowAborted();
    Pending pending{.number = ++channel.num_issued,
                    .issued_ns = MonotonicNs(),
                    .op_name = std::string(call.op_name),
                    .op = call.op};
    const std::string what = "'" + pending.op_name + "' failed on communicator";
    Settle(&channel, what, options_.nccl.GroupStart());
    const ncclResult_t result = enqueue(channel.comm);
    const ncclResult_t ended = options_.nccl.GroupEnd();
    const bool has_failed = result != ncclSuccess && result != ncclInProgress;
    Settle(&channel, what, has_failed ? result : ended);
    if (channel.free_events.empty()) {
      Check(options_.api, "cudaEventCreateWithFlags",
            options_.api.EventCreateWithFlags(&pending.ended, kEventDisableTiming));
    } else {
      pending.ended = channel.free_events.back();
      channel.free_events.pop_back();
    }
    Check(options_.api, "cudaEventRecord",
          options_.api.EventRecord(pending.ended, call.device_stream));
    channel.pending.push_back(std::move(pending));
  } catch (const TransportTimeout& error) {
    Fail({error.what(), /*is_timeout=*/true});
    throw;
  } catch (const std::exception& error) {
    Fail({error.what(), /*is_timeout=*/false});
    throw;
  }
}

void NcclTransport::AllGather(const Call& call, std::span<const GatherPiece> pieces) {
  if (call.device_stream == nullptr) return host_->AllGather(call, pieces);
  Collective(call, [&](ncclComm_t comm) {
    ncclResult_t result = ncclSuccess;
    for (const GatherPiece& piece : pieces) {
      if (piece.bytes == 0 || (result != ncclSuccess && result != ncclInProgress)) continue;
      result = options_.nccl.AllGather(piece.send, piece.receive, piece.bytes, ncclChar, comm,
                                       StreamOf(call));
    }
    return result;
  });
}

void NcclTransport::ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                                  const Reduction& reduction) {
  if (call.device_stream == nullptr) return host_->ReduceScatter(call, pieces, reduction);
  Collective(call, [&](ncclComm_t comm) {
    ncclResult_t result = ncclSuccess;
    for (const ReducePiece& piece : pieces) {
      if (piece.elements == 0 || (result != ncclSuccess && result != ncclInProgress)) continue;
      result = options_.nccl.ReduceScatter(piece.send, piece.receive, piece.elements,
                                           TypeOf(reduction.dtype), ncclSum, comm, StreamOf(call));
    }
    return result;
  });
  for (const ReducePiece& piece : pieces) {
    Scale(piece.receive, piece.elements, reduction, call.device_stream);
  }
}

void NcclTransport::AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                              const Reduction& reduction) {
  if (call.device_stream == nullptr) return host_->AllReduce(call, pieces, reduction);
  Collective(call, [&](ncclComm_t comm) {
    ncclResult_t result = ncclSuccess;
    for (const AllReducePiece& piece : pieces) {
      if (piece.elements == 0 || (result != ncclSuccess && result != ncclInProgress)) continue;
      result = options_.nccl.AllReduce(piece.data, piece.data, piece.elements,
                                       TypeOf(reduction.dtype), ncclSum, comm, StreamOf(call));
    }
    return result;
  });
  for (const AllReducePiece& piece : pieces) {
    Scale(piece.data, piece.elements, reduction, call.device_stream);
  }
}

void NcclTransport::Scale(void* data, size_t elements, const Reduction& reduction, Stream stream) {
  if (elements == 0 || reduction.scale == 1) return;
  options_.kernels->Sum({.inputs = {data},
                         .num_inputs = 1,
                         .output = data,
                         .elements = elements,
                         .dtype = reduction.dtype,
                         .scale = reduction.scale},
                        {}, stream);
}

void NcclTransport::Watch() {
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    changed_.wait_for(lock, std::chrono::nanoseconds(options_.look_every_ns));
    if (is_closing_ || failure_) continue;
    std::vector<Channel*> channels;  // they live as long as this
    for (const auto& [key, channel] : channels_) channels.push_back(channel.get());
    lock.unlock();
    for (Channel* channel : channels) {
      // Taken: somebody is in a call, and hears of errors there.
      std::unique_lock channel_lock(channel->mutex, std::try_to_lock);
      if (!channel_lock || channel->comm == nullptr) continue;
      const std::optional<Failure> failure = Look(channel);
      channel_lock.unlock();
      if (failure) Fail(*failure);
    }
    lock.lock();
  }
}

// What is wrong with a channel, with its mutex held.
std::optional<Failure> NcclTransport::Look(Channel* channel) {
  const int64_t now_ns = MonotonicNs();
  // Asking for an event on a thread without a device would make a context on the first GPU.
  if (options_.device_of_rank) {
    const Code code = options_.api.SetDevice(options_.device_of_rank(channel->rank));
    if (code != kSuccess) return Failure{Describe(options_.api, "cudaSetDevice", code)};
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = options_.nccl.CommGetAsyncError(channel->comm, &state);
  const ncclResult_t result = asked != ncclSuccess ? asked : state;
  if (result != ncclSuccess && result != ncclInProgress) {
    return Failure{ErrorText(*channel, "asynchronous error on communicator", result)};
  }
  while (!channel->pending.empty()) {
    const Code code = options_.api.EventQuery(channel->pending.front().ended);
    if (code == kErrorNotReady) break;
    if (code != kSuccess) return Failure{Describe(options_.api, "cudaEventQuery", code)};
    channel->free_events.push_back(channel->pending.front().ended);
    channel->pending.pop_front();
    channel->last_end_ns = now_ns;
  }
  if (channel->pending.empty() || options_.timeout_ns == 0) return std::nullopt;
  const Pending& oldest = channel->pending.front();
  const int64_t since_ns = std::max(oldest.issued_ns, channel->last_end_ns);
  if (now_ns - since_ns <= options_.timeout_ns) return std::nullopt;
  return Timeout(*channel, oldest);
}

Failure NcclTransport::Timeout(const Channel& channel, const Pending& pending) {
  std::string text = "nccl: rank " + std::to_string(channel.rank) + " waits for '" +
                     pending.op_name + "' (op " + std::to_string(pending.op) + ", number " +
                     std::to_string(pending.number) + " of communicator " +
                     std::to_string(channel.communicator) + ") for " +
                     FormatDuration(options_.timeout_ns);
  bool is_anyone_late = false;
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    if (options_.only_rank && rank != *options_.only_rank) continue;
    const auto found = channels_.find({rank, channel.communicator});
    const int64_t issued = found == channels_.end() ? 0 : found->second->num_issued.load();
    if (issued >= pending.number) continue;
    is_anyone_late = true;
    text += "; " + Described(rank) + ", it has issued " + std::to_string(issued);
  }
  if (options_.only_rank) {
    text += "; the other processes say where they wait, the rank that is late does not";
  } else if (!is_anyone_late) {
    text += "; all ranks have issued it: a GPU or the link between them hangs";
  }
  return {text, /*is_timeout=*/true};
}

// No lock is held. The first reason stays.
void NcclTransport::Fail(const Failure& failure) {
  std::vector<Channel*> channels;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    is_aborted_ = true;
    for (const auto& [key, channel] : channels_) channels.push_back(channel.get());
  }
  host_->Abort(failure.reason);
  for (Channel* channel : channels) {
    const std::lock_guard lock(channel->mutex);
    if (channel->comm != nullptr) static_cast<void>(options_.nccl.CommAbort(channel->comm));
    channel->comm = nullptr;
  }
}

}  // namespace

std::unique_ptr<transport::Transport> MakeNcclTransport(
    const NcclTransportOptions& options, std::unique_ptr<transport::Transport> host) {
  return std::make_unique<NcclTransport>(options, std::move(host));
}

}  // namespace shardscope::cuda
