#include "engine/cuda/transport/nccl/nccl_watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::cuda {

NcclWatchdog::NcclWatchdog(const NcclTransportOptions& options, NcclChannels* channels, Calls calls)
    : options_(options),
      channels_(channels),
      calls_(std::move(calls)),
      thread_([this] { Watch(); }) {}

NcclWatchdog::~NcclWatchdog() {
  {
    const MutexLock lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void NcclWatchdog::Watch() {
  MutexLock lock(mutex_);
  while (!is_closing_) {
    changed_.wait_for(lock, std::chrono::nanoseconds(options_.look_every_ns));
    if (is_closing_) return;
    lock.unlock();
    const std::optional<NcclFailure> failure = LookAtAll();
    if (failure) return calls_.on_failure(*failure);
    lock.lock();
  }
}

std::optional<NcclFailure> NcclWatchdog::LookAtAll() {
  for (NcclChannel* channel : channels_->All()) {
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

bool NcclWatchdog::TakesTooLong(int64_t since_ns) const {
  if (options_.timeout_ns == 0) return false;
  const int64_t waited_ns = MonotonicNs() - since_ns;
  if (calls_.board != nullptr && waited_ns > options_.timeout_ns / 2) calls_.board->AskForOthers();
  return waited_ns > options_.timeout_ns;
}

// The rank's thread is in a call of NCCL, and hears of errors there, if it ever returns.
std::optional<NcclFailure> NcclWatchdog::LookAtCall(NcclChannel* channel) {
  const MutexLock lock(channel->calling_mutex);
  if (!channel->calling || !TakesTooLong(channel->calling->issued_ns)) return std::nullopt;
  return Timeout(*channel, *channel->calling, "is in NCCL's call for");
}

std::optional<NcclFailure> NcclWatchdog::Look(NcclChannel* channel) {
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
    return NcclFailure{
        channels_->ErrorText(*channel, "asynchronous error on communicator", result)};
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

std::optional<int64_t> NcclWatchdog::IssuedBy(int rank, int communicator) const {
  if (IsHere(rank)) return channels_->NumIssued(rank, communicator);
  return calls_.board == nullptr ? std::nullopt : calls_.board->Issued(rank, communicator);
}

NcclFailure NcclWatchdog::Timeout(const NcclChannel& channel, const Pending& pending,
                                  const char* does) const {
  std::string text = "nccl: rank " + std::to_string(channel.rank) + " " + does + " '" +
                     pending.op_name + "' (op " + std::to_string(pending.op) + ", number " +
                     std::to_string(pending.number) + " of communicator " +
                     std::to_string(channel.communicator) + ") for " +
                     FormatDuration(options_.timeout_ns);
  bool is_explained = false;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const std::optional<int64_t> issued = IssuedBy(rank, channel.communicator);
    if (issued && *issued >= pending.number) continue;
    is_explained = true;
    const std::string name = "rank " + std::to_string(rank);
    if (!issued) {
      text += "; " + name + " has said nothing of itself";
    } else {
      text += "; " + (IsHere(rank) ? calls_.describe_rank(rank) : name + " is late") +
              ", it has issued " + std::to_string(*issued);
    }
  }
  if (!is_explained) {
    text += "; all ranks have issued it: a GPU or the link between them hangs";
  }
  return {text, /*is_timeout=*/true};
}

}  // namespace shardscope::cuda
