#include "engine/cuda/transport/nccl/nccl_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "engine/cuda/transport/nccl/nccl_board.h"
#include "engine/cuda/transport/nccl/nccl_channels.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::cuda {
namespace {

using transport::AllReducePiece;
using transport::BroadcastPiece;
using transport::Call;
using transport::GatherPiece;
using transport::Party;
using transport::ReducePiece;
using transport::Reduction;
using transport::TransportError;
using transport::TransportTimeout;

// Between two looks at a call that NCCL has not finished yet.
constexpr std::chrono::microseconds kPollTransportEvery(50);

ncclDataType_t TypeOf(plan::DType dtype) {
  switch (dtype) {
    case plan::DType::kFp32:
      return ncclFloat32;
    case plan::DType::kBf16:
      return ncclBfloat16;
    case plan::DType::kFp16:
      return ncclFloat16;
    case plan::DType::kFp64:
      return ncclFloat64;
  }
  return ncclFloat32;
}

cudaStream_t StreamOf(const Call& call) { return static_cast<cudaStream_t>(call.device_stream); }

// Why everything stops.
struct NcclFailure {
  std::string reason;
  bool is_timeout = false;
};

class NcclTransport final : public transport::Transport {
 public:
  NcclTransport(const NcclTransportOptions& options, std::unique_ptr<transport::Transport> host)
      : options_(options),
        host_(std::move(host)),
        channels_(options.api, options.nccl, options.abort_patience_ns),
        board_(MakeBoard()) {
    host_->set_describe_rank([this](int rank) { return Described(rank); });
    watchdog_ = std::thread([this] { Watch(); });
  }
  ~NcclTransport() override {
    {
      const MutexLock lock(watch_mutex_);
      is_closing_ = true;
      closing_.notify_all();
    }
    watchdog_.join();
  }

  const transport::Capabilities& capabilities() const override { return capabilities_; }
  void AllGather(const Call& call, std::span<const GatherPiece> pieces) override;
  void ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                     const Reduction& reduction) override;
  void AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                 const Reduction& reduction) override;
  void Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) override;
  int64_t Broadcast(int rank, int64_t value) override { return host_->Broadcast(rank, value); }
  void Abort(const std::string& reason) override {
    Fail({reason.empty() ? "no reason given" : reason, /*is_timeout=*/false});
  }
  void ThrowIfAborted() const override {
    if (is_aborted_) ThrowAborted();
  }
  void SetLink(double /*bytes_per_second*/, int64_t /*latency_ns*/) override {}

 private:
  // On the watchdog's thread, which looks at all channels from time to time and finds NCCL's
  // asynchronous errors, and collectives that do not end in time.
  void Watch();
  std::optional<NcclFailure> LookAtAll();
  std::optional<NcclFailure> Look(NcclChannel* channel) REQUIRES(channel->mutex);
  std::optional<NcclFailure> LookAtCall(NcclChannel* channel);
  // Whether what is waited for since then has taken too long; asks for the others' progress before.
  bool TakesTooLong(int64_t since_ns) const;
  // Collectives that `rank` has issued on a communicator; none: it is not known.
  std::optional<int64_t> IssuedBy(int rank, int communicator) const;
  bool IsHere(int rank) const { return !options_.only_rank || rank == *options_.only_rank; }
  NcclFailure Timeout(const NcclChannel& channel, const Pending& pending, const char* does) const;

  template <typename Piece, typename Enqueue>
  void Collective(const Call& call, std::span<const Piece> pieces, const Enqueue& enqueue);
  void Connect(const Call& call, NcclChannel* channel, const Pending& pending);
  std::unique_ptr<NcclBoard> MakeBoard();
  NcclProgress Progress(int rank) const;
  void Scale(void* data, size_t elements, const Reduction& reduction, Stream stream);

  // With channel->mutex held: `result` of a call to NCCL; waits until it is not in progress.
  void Settle(const NcclChannel& channel, const std::string& what, ncclResult_t result) const;
  Event TakeEvent(NcclChannel* channel) const REQUIRES(channel->mutex);
  [[noreturn]] void ThrowAborted() const;
  void Fail(const NcclFailure& failure);

  const NcclTransportOptions options_;
  const transport::Capabilities capabilities_{"nccl", words::Truth::kMeasured, false};
  const std::shared_ptr<transport::Transport> host_;  // with the board's thread

  mutable Mutex mutex_;
  std::optional<NcclFailure> failure_ GUARDED_BY(mutex_);
  std::atomic<bool> is_aborted_{false};  // as failure_, for loops that may not take mutex_

  NcclChannels channels_;
  const std::unique_ptr<NcclBoard> board_;  // where ranks are processes; its thread uses the above

  Mutex watch_mutex_;
  bool is_closing_ GUARDED_BY(watch_mutex_) = false;
  CondVar closing_;
  std::thread watchdog_;  // uses all of the above; until the destructor
};

// Without a timeout it would not be read.
std::unique_ptr<NcclBoard> NcclTransport::MakeBoard() {
  if (!options_.only_rank || options_.timeout_ns == 0) return nullptr;
  const int rank = *options_.only_rank;
  return std::make_unique<NcclBoard>(
      host_, NcclBoardOptions{.rank = rank,
                              .num_ranks = options_.num_ranks,
                              .period_ns = std::min(kNsPerSecond, options_.timeout_ns / 4),
                              .mine = [this, rank] { return Progress(rank); }});
}

NcclProgress NcclTransport::Progress(int rank) const {
  NcclProgress progress;
  for (const NcclChannel* channel : channels_.All()) {
    if (channel->rank == rank) progress[channel->communicator] = channel->num_issued;
  }
  return progress;
}

// All ranks of the group do so at the same place of their programs. On the rank's host thread,
// whose device is the rank's.
void NcclTransport::Connect(const Call& call, NcclChannel* channel, const Pending& pending) {
  ncclUniqueId id = {};
  if (channel->place == 0) {
    const ncclResult_t result = options_.nccl.GetUniqueId(&id);
    if (result != ncclSuccess) {
      throw TransportError(channels_.ErrorText(*channel, "no unique id for communicator", result));
    }
  }
  std::vector<ncclUniqueId> ids(channel->ranks.size());
  const GatherPiece piece = {reinterpret_cast<const std::byte*>(&id),
                             reinterpret_cast<std::byte*>(ids.data()), sizeof(id)};
  Call exchange{.rank = call.rank,
                .communicator = call.communicator,
                .group = call.group,
                .op_name = "ncclUniqueId"};
  host_->AllGather(exchange, {&piece, 1});
  id = ids.front();
  // Note: blocking communicators
  // A group of a non-blocking communicator is launched by a thread that NCCL starts for it: CUPTI
  // would see the kernel come from a thread that belongs to no rank and no op. So calls may block,
  // as PyTorch's do; what ends one that blocks for ever is AbortAll() on the watchdog's thread.
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  channel->name = "shardscope" + std::to_string(channel->communicator);
  config.commName = channel->name.c_str();
  const MutexLock lock(channel->mutex);
  const NcclCalling calling(channel, pending, options_.log, "ncclCommInitRankConfig");
  // Before it connects NCCL writes the handle, so that others can abort it: a plain store of a
  // pointer, which an atomic one of this size is.
  static_assert(sizeof(channel->comm) == sizeof(ncclComm_t) &&
                std::atomic<ncclComm_t>::is_always_lock_free);
  auto* const comm = reinterpret_cast<ncclComm_t*>(&channel->comm);
  Settle(*channel, "cannot make communicator",
         options_.nccl.CommInitRankConfig(comm, static_cast<int>(channel->ranks.size()), id,
                                          channel->place, &config));
}

// In progress are only calls that NCCL_COMM_BLOCKING=0 forbids to block.
void NcclTransport::Settle(const NcclChannel& channel, const std::string& what,
                           ncclResult_t result) const {
  const int64_t begin_ns = MonotonicNs();
  while (result == ncclInProgress) {
    const ncclComm_t comm = channel.comm;
    if (is_aborted_ || comm == nullptr) ThrowAborted();
    if (options_.timeout_ns > 0 && MonotonicNs() - begin_ns > options_.timeout_ns) {
      throw TransportTimeout(channels_.ErrorText(channel, what, result) + "; not done after " +
                             FormatDuration(options_.timeout_ns));
    }
    std::this_thread::sleep_for(kPollTransportEvery);
    const ncclResult_t asked = options_.nccl.CommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) result = asked;
  }
  // A call that was ended by an abort fails, but that is not why.
  if (is_aborted_) ThrowAborted();
  if (result != ncclSuccess) throw TransportError(channels_.ErrorText(channel, what, result));
}

void NcclTransport::ThrowAborted() const {
  const MutexLock lock(mutex_);
  const NcclFailure failure = failure_.value_or(NcclFailure{"aborted"});
  if (failure.is_timeout) throw TransportTimeout(failure.reason);
  throw TransportError("aborted: " + failure.reason);
}

Event NcclTransport::TakeEvent(NcclChannel* channel) const {
  Event event = nullptr;
  if (channel->free_events.empty()) {
    Check(options_.api, "cudaEventCreateWithFlags",
          options_.api.EventCreateWithFlags(&event, kEventDisableTiming));
  } else {
    event = channel->free_events.back();
    channel->free_events.pop_back();
  }
  return event;
}

// Calls enqueue(piece, comm) of all that is not empty between the start and the end of a group: one
// kernel for all pieces.
template <typename Piece, typename Enqueue>
void NcclTransport::Collective(const Call& call, std::span<const Piece> pieces,
                               const Enqueue& enqueue) {
  if (is_aborted_) ThrowAborted();
  NcclChannel& channel =
      channels_.Of(call.rank, call.communicator, Party(call, options_.num_ranks));
  Pending pending{.number = ++channel.num_issued,
                  .issued_ns = MonotonicNs(),
                  .op_name = std::string(call.op_name),
                  .op = call.op};
  try {
    if (!std::exchange(channel.has_connected, true)) Connect(call, &channel, pending);
    const MutexLock lock(channel.mutex);
    const ncclComm_t comm = channel.comm;
    if (comm == nullptr) ThrowAborted();
    {
      const NcclCalling calling(&channel, pending, options_.log, pending.op_name);
      const std::string what = "'" + pending.op_name + "' failed on communicator";
      Settle(channel, what, options_.nccl.GroupStart());
      const auto is_failure = [](ncclResult_t code) {
        return code != ncclSuccess && code != ncclInProgress;
      };
      ncclResult_t result = ncclSuccess;
      for (const Piece& piece : pieces) {
        if (SizeOf(piece) > 0 && !is_failure(result)) result = enqueue(piece, comm);
      }
      const ncclResult_t ended = options_.nccl.GroupEnd();
      Settle(channel, what, is_failure(result) ? result : ended);
    }
    pending.ended = TakeEvent(&channel);
    const Event ended = pending.ended;
    channel.pending.push_back(std::move(pending));
    Check(options_.api, "cudaEventRecord", options_.api.EventRecord(ended, call.device_stream));
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
  Collective(call, pieces, [&](const GatherPiece& piece, ncclComm_t comm) {
    return options_.nccl.AllGather(piece.send, piece.receive, piece.bytes, ncclChar, comm,
                                   StreamOf(call));
  });
}

void NcclTransport::ReduceScatter(const Call& call, std::span<const ReducePiece> pieces,
                                  const Reduction& reduction) {
  if (call.device_stream == nullptr) return host_->ReduceScatter(call, pieces, reduction);
  Collective(call, pieces, [&](const ReducePiece& piece, ncclComm_t comm) {
    return options_.nccl.ReduceScatter(piece.send, piece.receive, piece.elements,
                                       TypeOf(reduction.dtype), ncclSum, comm, StreamOf(call));
  });
  for (const ReducePiece& piece : pieces) {
    Scale(piece.receive, piece.elements, reduction, call.device_stream);
  }
}

void NcclTransport::AllReduce(const Call& call, std::span<const AllReducePiece> pieces,
                              const Reduction& reduction) {
  if (call.device_stream == nullptr) return host_->AllReduce(call, pieces, reduction);
  Collective(call, pieces, [&](const AllReducePiece& piece, ncclComm_t comm) {
    return options_.nccl.AllReduce(piece.data, piece.data, piece.elements, TypeOf(reduction.dtype),
                                   ncclSum, comm, StreamOf(call));
  });
  for (const AllReducePiece& piece : pieces) {
    Scale(piece.data, piece.elements, reduction, call.device_stream);
  }
}

void NcclTransport::Broadcast(const Call& call, std::span<const BroadcastPiece> pieces) {
  if (call.device_stream == nullptr) return host_->Broadcast(call, pieces);
  Collective(call, pieces, [&](const BroadcastPiece& piece, ncclComm_t comm) {
    return options_.nccl.Broadcast(piece.data, piece.data, piece.bytes, ncclChar, call.root, comm,
                                   StreamOf(call));
  });
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
  MutexLock lock(watch_mutex_);
  while (!is_closing_) {
    closing_.wait_for(lock, std::chrono::nanoseconds(options_.look_every_ns));
    if (is_closing_) return;
    lock.unlock();
    const std::optional<NcclFailure> failure = LookAtAll();
    if (failure) return Fail(*failure);
    lock.lock();
  }
}

std::optional<NcclFailure> NcclTransport::LookAtAll() {
  for (NcclChannel* channel : channels_.All()) {
    std::optional<NcclFailure> failure;
    if (channel->mutex.try_lock()) {
      const MutexLock lock(channel->mutex, std::adopt_lock);
      failure = Look(channel);
    } else {
      failure = LookAtCall(channel);
    }
    if (failure) return failure;
  }
  return std::nullopt;
}

bool NcclTransport::TakesTooLong(int64_t since_ns) const {
  if (options_.timeout_ns == 0) return false;
  const int64_t waited_ns = MonotonicNs() - since_ns;
  if (board_ != nullptr && waited_ns > options_.timeout_ns / 2) board_->AskForOthers();
  return waited_ns > options_.timeout_ns;
}

// The rank's thread is in a call of NCCL, and gets errors there, if it ever returns.
std::optional<NcclFailure> NcclTransport::LookAtCall(NcclChannel* channel) {
  const MutexLock lock(channel->calling_mutex);
  if (!channel->calling || !TakesTooLong(channel->calling->issued_ns)) return std::nullopt;
  return Timeout(*channel, *channel->calling, "is in NCCL's call for");
}

std::optional<NcclFailure> NcclTransport::Look(NcclChannel* channel) {
  const ncclComm_t comm = channel->comm;
  if (comm == nullptr) return std::nullopt;
  const int64_t now_ns = MonotonicNs();
  // Asking for an event on a thread without a device would make a context on the first GPU.
  if (options_.device_of_rank) {
    const Code code = options_.api.SetDevice(options_.device_of_rank(channel->rank));
    if (code != kSuccess) return NcclFailure{Describe(options_.api, "cudaSetDevice", code)};
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = options_.nccl.CommGetAsyncError(comm, &state);
  const ncclResult_t result = asked != ncclSuccess ? asked : state;
  if (result != ncclSuccess && result != ncclInProgress) {
    return NcclFailure{channels_.ErrorText(*channel, "asynchronous error on communicator", result)};
  }
  while (!channel->pending.empty()) {
    const Pending& oldest = channel->pending.front();
    const Code code = QueryEvent(options_.api, oldest.ended);
    if (code == kErrorNotReady) break;
    if (code != kSuccess) {
      return NcclFailure{"nccl: rank " + std::to_string(channel->rank) + ": '" + oldest.op_name +
                         "' or an op before it: " + Describe(options_.api, "cudaEventQuery", code)};
    }
    channel->free_events.push_back(oldest.ended);
    channel->pending.pop_front();
    channel->last_end_ns = now_ns;
  }
  if (channel->pending.empty()) return std::nullopt;
  const Pending& oldest = channel->pending.front();
  if (!TakesTooLong(std::max(oldest.issued_ns, channel->last_end_ns))) return std::nullopt;
  return Timeout(*channel, oldest, "waits for");
}

std::optional<int64_t> NcclTransport::IssuedBy(int rank, int communicator) const {
  if (IsHere(rank)) return channels_.NumIssued(rank, communicator);
  return board_ == nullptr ? std::nullopt : board_->Issued(rank, communicator);
}

NcclFailure NcclTransport::Timeout(const NcclChannel& channel, const Pending& pending,
                                   const char* does) const {
  std::string text = "nccl: rank " + std::to_string(channel.rank) + " " + does + " '" +
                     pending.op_name + "' (op " + std::to_string(pending.op) + ", number " +
                     std::to_string(pending.number) + " of communicator " +
                     std::to_string(channel.communicator) + ") for " +
                     FormatDuration(options_.timeout_ns);
  bool is_explained = false;
  for (const int rank : channel.ranks) {
    const std::optional<int64_t> issued = IssuedBy(rank, channel.communicator);
    if (issued && *issued >= pending.number) continue;
    is_explained = true;
    const std::string name = "rank " + std::to_string(rank);
    if (!issued) {
      text += "; " + name + " has said nothing of itself";
    } else {
      text += "; " + (IsHere(rank) ? Described(rank) : name + " is late") + ", it has issued " +
              std::to_string(*issued);
    }
  }
  if (!is_explained) {
    text += "; all ranks have issued it: a GPU or the link between them hangs";
  }
  return {text, /*is_timeout=*/true};
}

// No lock is held. The first reason stays.
void NcclTransport::Fail(const NcclFailure& failure) {
  bool is_first = false;
  {
    const MutexLock lock(mutex_);
    is_first = !failure_.has_value();
    if (is_first) failure_ = failure;
    is_aborted_ = true;
  }
  if (is_first) host_->Abort(failure.reason);
  // The others too: each takes away the communicator that it has just made.
  channels_.AbortAll();
}

}  // namespace

std::unique_ptr<transport::Transport> MakeNcclTransport(
    const NcclTransportOptions& options, std::unique_ptr<transport::Transport> host) {
  return std::make_unique<NcclTransport>(options, std::move(host));
}

}  // namespace shardscope::cuda
