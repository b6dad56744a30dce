// NcclWatchdog: a thread that looks at all channels from time to time and finds NCCL's asynchronous
// errors, and collectives that do not end in time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "engine/cuda/transport/nccl/nccl_board.h"
#include "engine/cuda/transport/nccl/nccl_channels.h"
#include "engine/cuda/transport/nccl/nccl_transport.h"
#include "trace/base/mutex.h"

namespace shardscope::cuda {

// Why everything stops.
struct NcclFailure {
  std::string reason;
  bool is_timeout = false;
};

// Owner: the transport. Starts with its construction, ends with its destruction.
class NcclWatchdog {
 public:
  struct Calls {
    transport::DescribeRank describe_rank;
    // Everything has to stop; after it no more is looked at. On the watchdog's thread.
    std::function<void(const NcclFailure& failure)> on_failure;
    // Of the other processes' ranks; null where all ranks are threads of this one.
    NcclBoard* board = nullptr;
  };

  // `channels` is borrowed.
  NcclWatchdog(const NcclTransportOptions& options, NcclChannels* channels, Calls calls);
  ~NcclWatchdog();

 private:
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

  const NcclTransportOptions options_;
  NcclChannels* const channels_;
  const Calls calls_;

  Mutex mutex_;
  bool is_closing_ GUARDED_BY(mutex_) = false;
  CondVar changed_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace shardscope::cuda
