// NcclChannels: the communicators of NCCL that the ranks of this process have, what is on its way
// on them, and how all of them are aborted.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/nccl/nccl_api.h"
#include "engine/plan/op.h"
#include "engine/transport/transport.h"
#include "trace/base/mutex.h"

namespace shardscope::cuda {

// A collective on its way.
struct Pending {
  Event ended = nullptr;
  int64_t number = 0;  // from 1
  int64_t issued_ns = 0;
  std::string op_name;
  plan::OpIndex op = plan::kNone;
};

// One rank's end of one communicator.
struct NcclChannel {
  int rank = 0;
  plan::CommunicatorIndex communicator = 0;
  int place = 0;               // of `rank` in `ranks`
  std::vector<int> ranks;      // of its group of the communicator
  std::string name;            // what NCCL calls it; as long as the communicator lives
  bool has_connected = false;  // to these ranks; the rank's thread only

  std::atomic<int64_t> num_issued = 0;  // collectives, the one that is being issued too
  // NCCL writes it before it connects to the other ranks; an abort takes it away.
  std::atomic<ncclComm_t> comm = nullptr;

  Mutex mutex;                                // held through every call of NCCL with `comm`
  int64_t last_end_ns GUARDED_BY(mutex) = 0;  // when the watchdog saw a collective end
  std::deque<Pending> pending GUARDED_BY(mutex);
  std::vector<Event> free_events GUARDED_BY(mutex);

  Mutex calling_mutex;
  std::optional<Pending> calling
      GUARDED_BY(calling_mutex);  // what the rank's thread calls NCCL for at this moment
};

// Says what the rank's thread calls NCCL for while it lives; at the end `log` gets the call,
// which may be null.
class NcclCalling {
 public:
  // `name` of the call is borrowed.
  NcclCalling(NcclChannel* channel, const Pending& pending, DeviceLog* log, std::string_view name);
  ~NcclCalling();
  NcclCalling(const NcclCalling&) = delete;
  NcclCalling& operator=(const NcclCalling&) = delete;

 private:
  void Set(std::optional<Pending> pending) {
    const MutexLock lock(channel_->calling_mutex);
    channel_->calling = std::move(pending);
  }
  NcclChannel* const channel_;
  DeviceLog* const log_;
  gpu::NcclRange call_;
};

// Threads: any.
class NcclChannels {
 public:
  // So long an abort waits for threads that are in a call of NCCL.
  NcclChannels(const RuntimeApi& api, const NcclApi& nccl, int64_t abort_patience_ns)
      : api_(api), nccl_(nccl), abort_patience_ns_(abort_patience_ns) {}
  // Aborts what is left: no thread may use it any more. Not ncclCommDestroy, which waits for other
  // ranks that may have gone.
  ~NcclChannels();

  // Made at its first use; lives as long as this.
  NcclChannel& Of(int rank, plan::CommunicatorIndex communicator, const transport::Party& party);
  std::vector<NcclChannel*> All() const;  // in the order of ranks
  int64_t NumIssued(int rank, plan::CommunicatorIndex communicator) const;

  // Ends all kernels and calls on all communicators, then frees these. After it no thread
  // may begin another call of NCCL. May come again, for communicators that were being made.
  void AbortAll();

  // "nccl: rank 1: <what> 0: <NCCL's words>".
  std::string ErrorText(const NcclChannel& channel, const std::string& what,
                        ncclResult_t result) const;

 private:
  NcclChannel& FindOrMake(int rank, plan::CommunicatorIndex communicator);
  void TellAll(const std::vector<NcclChannel*>& channels);

  const RuntimeApi api_;
  const NcclApi nccl_;
  const int64_t abort_patience_ns_;
  Mutex abort_mutex_;  // one abort at a time

  mutable Mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<NcclChannel>> channels_
      GUARDED_BY(mutex_);  // by rank, communicator
};

}  // namespace shardscope::cuda
