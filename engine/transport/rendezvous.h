// Rendezvous: where the ranks of one group of a communicator meet, in one process. Each rank
// announces its call; when all have come, the announcements are compared and every rank may read
// what the others announced until it parts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/transport/transport.h"
#include "trace/base/mutex.h"

namespace shardscope::transport {

// What a rank brings; a plain number is a broadcast.
using Pieces =
    std::variant<std::span<const GatherPiece>, std::span<const ReducePiece>,
                 std::span<const AllReducePiece>, std::span<const BroadcastPiece>, int64_t>;

struct Announcement {
  Call call;
  Pieces pieces;
  Reduction reduction;
};

// A call to which all ranks have come: equal on all of them.
struct MetCall {
  int64_t value = 0;        // a broadcast's: what rank 0 announced
  int64_t deadline_ns = 0;  // no rank's collective ends before; 0 = at once
  int64_t all_arrived_ns = 0;
};

// Owner: the transport. Threads: one thread of each rank at a time.
class Rendezvous {
 public:
  // `deadline` is asked once a meeting, by the rank that arrives last.
  using Deadline = std::function<int64_t(std::span<const Announcement>)>;
  // `ranks`: ascending; what follows numbers them by their place in it. `describe` tells what a
  // rank that is missing does instead.
  Rendezvous(std::vector<int> ranks, int64_t timeout_ns, Deadline deadline, DescribeRank describe);

  // Blocks until all ranks have come. Throws TransportError if their calls differ, if one does not
  // come in time, or if aborted. After a throw the caller must abort.
  MetCall Meet(const Announcement& announcement);

  // What the rank at `place` announced; from Meet() to the last Sync() of the collective.
  // Unlocked: no rank announces anything before all have synced.
  const Announcement& Of(int place) const NO_THREAD_SAFETY_ANALYSIS {
    return announced_[static_cast<size_t>(place)];
  }
  const std::vector<int>& ranks() const { return ranks_; }
  int num_ranks() const { return static_cast<int>(ranks_.size()); }

  // Barrier among ranks that have met. Never fails and heeds no abort: ranks may be reading the
  // memory that other ranks announced, which must not go away under them, and between Meet() and
  // the last Sync() no rank does anything but finite work.
  void Sync();

  // Sleeps, but for the last stretch, in which a sleep would come back too late: that is waited for
  // on the core, unless there are more ranks than cores. Throws TransportError if aborted while it
  // sleeps.
  void SleepUntil(int64_t deadline_ns);

  // What a rank that has waited too long would say now, or has said; empty if none waits.
  std::string Waiting() const;

  // Every rank that has not met yet throws; the first reason stays. After a timeout all of them
  // throw TransportTimeout with its text: each may be the first to tell the user.
  void Abort(const std::string& reason, bool is_timeout = false);

 private:
  void ThrowIfAborted() const REQUIRES(mutex_);
  void ArriveLast() REQUIRES(mutex_);
  [[noreturn]] void ThrowTimeout() REQUIRES(mutex_);
  std::string WhoIsMissing() const REQUIRES(mutex_);

  const std::vector<int> ranks_;
  const int64_t spin_ns_;  // the last stretch of SleepUntil()
  const int64_t timeout_ns_;
  const Deadline deadline_;
  const DescribeRank describe_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Announcement> announced_ GUARDED_BY(mutex_);  // by place
  std::vector<bool> has_arrived_ GUARDED_BY(mutex_);        // by place
  int num_arrived_ GUARDED_BY(mutex_) = 0;
  uint64_t generation_ GUARDED_BY(mutex_) = 0;  // counts meetings and syncs
  int64_t num_meetings_ GUARDED_BY(mutex_) = 0;
  MetCall met_ GUARDED_BY(mutex_);  // the last; stays until all ranks have come again
  std::optional<std::string> aborted_ GUARDED_BY(mutex_);
  bool is_timeout_ GUARDED_BY(mutex_) = false;  // why it was aborted
};

}  // namespace shardscope::transport
