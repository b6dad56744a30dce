#include "engine/cuda/transport/nccl/nccl_channels.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

// Between two looks at a thread that is to leave NCCL.
constexpr std::chrono::microseconds kPollEvery(50);

}  // namespace

NcclCalling::NcclCalling(NcclChannel* channel, const Pending& pending, DeviceLog* log,
                         std::string_view name)
    : channel_(channel), log_(log) {
  Set(pending);
  if (log_ == nullptr) return;
  call_.name = name;
  call_.thread = static_cast<uint32_t>(gettid());
  call_.start_ns = MonotonicNs();
}

NcclCalling::~NcclCalling() {
  if (log_ != nullptr) {
    call_.end_ns = MonotonicNs();
    log_->OnNccl(call_);
  }
  Set(std::nullopt);
}

NcclChannels::~NcclChannels() {
  AbortAll();
  for (const auto& [key, channel] : channels_) {
    for (const Pending& pending : channel->pending) channel->free_events.push_back(pending.ended);
    for (const Event event : channel->free_events) static_cast<void>(api_.EventDestroy(event));
  }
}

NcclChannel& NcclChannels::Of(int rank, plan::CommunicatorIndex communicator,
                              const transport::Party& party) {
  NcclChannel& channel = FindOrMake(rank, communicator);
  // Only the rank's own thread changes them.
  if (std::vector<int> ranks = party.Ranks(); channel.ranks != ranks) {
    // Of another mesh; whatever went over the one before has ended.
    const MutexLock lock(channel.mutex);
    TellAll({&channel});
    channel.place = party.place();
    channel.ranks = std::move(ranks);
    channel.has_connected = false;
  }
  return channel;
}

NcclChannel& NcclChannels::FindOrMake(int rank, plan::CommunicatorIndex communicator) {
  const MutexLock lock(mutex_);
  std::unique_ptr<NcclChannel>& channel = channels_[{rank, communicator}];
  if (channel == nullptr) {
    channel = std::make_unique<NcclChannel>();
    channel->rank = rank;
    channel->communicator = communicator;
  }
  return *channel;
}

std::vector<NcclChannel*> NcclChannels::All() const {
  const MutexLock lock(mutex_);
  std::vector<NcclChannel*> all;
  for (const auto& [key, channel] : channels_) all.push_back(channel.get());
  return all;
}

int64_t NcclChannels::NumIssued(int rank, plan::CommunicatorIndex communicator) const {
  const MutexLock lock(mutex_);
  const auto found = channels_.find({rank, communicator});
  return found == channels_.end() ? 0 : found->second->num_issued.load();
}

// Inside a group this only raises the abort flags.
void NcclChannels::TellAll(const std::vector<NcclChannel*>& channels) {
  for (NcclChannel* channel : channels) {
    const ncclComm_t comm = channel->comm.exchange(nullptr);
    if (comm != nullptr) static_cast<void>(nccl_.CommAbort(comm));
  }
}

// Note: aborting several communicators
// ncclCommAbort tells the kernels and calls of a communicator to stop, then frees its memory, and
// freeing waits for the whole GPU. One communicator after the other, the first one's memory waits
// for kernels of the second, which is not told to stop yet (NVIDIA/nccl issue 1013; PyTorch met it
// in issue 119797). Inside a group all are told first, and freed when the group ends.
// Nor may any thread be in a call with a communicator that is freed. Those that are leave
// it soon after they were told, so their mutexes are awaited before the group ends. One that does
// not leave keeps all memory: the group is never ended, and the process is as good as over.
void NcclChannels::AbortAll() {
  const MutexLock aborting(abort_mutex_);
  const std::vector<NcclChannel*> channels = All();
  if (channels.empty()) return;
  std::vector<std::unique_lock<Mutex>> held;
  for (NcclChannel* channel : channels) held.emplace_back(channel->mutex, std::defer_lock);
  const int64_t deadline_ns = MonotonicNs() + abort_patience_ns_;
  static_cast<void>(nccl_.GroupStart());
  while (true) {
    TellAll(channels);  // again and again: a communicator may just be in the making
    bool has_all = true;
    for (std::unique_lock<Mutex>& lock : held) {
      has_all = (lock.owns_lock() || lock.try_lock()) && has_all;
    }
    if (has_all) break;
    if (MonotonicNs() > deadline_ns) return;
    std::this_thread::sleep_for(kPollEvery);
  }
  TellAll(channels);
  static_cast<void>(nccl_.GroupEnd());
}

std::string NcclChannels::ErrorText(const NcclChannel& channel, const std::string& what,
                                    ncclResult_t result) const {
  const char* details = nccl_.GetLastError(channel.comm);
  std::string text = "nccl: rank " + std::to_string(channel.rank) + ": " + what + " " +
                     std::to_string(channel.communicator) + ": " + nccl_.GetErrorString(result);
  if (details != nullptr && *details != '\0') text += std::string(" (") + details + ")";
  return text + "; NCCL_DEBUG=INFO tells more";
}

}  // namespace shardscope::cuda
