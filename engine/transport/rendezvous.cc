#include "engine/transport/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

#include "engine/transport/left_out.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/base/wait.h"
#include "trace/base/words.h"

namespace shardscope::transport {
namespace {

// What a sleep can be late by: the 50 us within which the kernel puts timers together, and the way
// back onto a core (docs/benchmarks.md).
constexpr int64_t kSpinNs = 100 * kNsPerUs;

// Ranks that share a core would only keep one another from it.
int64_t SpinNs(int num_ranks) {
  return num_ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpinNs : 0;
}

// steady_clock is CLOCK_MONOTONIC, as MonotonicNs().
std::chrono::steady_clock::time_point TimePoint(int64_t monotonic_ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(monotonic_ns));
}

words::OpKind KindOf(const Announcement& announcement) {
  using words::OpKind;
  const bool has_root = announcement.call.root != plan::kNone;
  const Pieces& pieces = announcement.pieces;
  if (std::holds_alternative<std::span<const GatherPiece>>(pieces)) {
    return has_root ? OpKind::kGather : OpKind::kAllGather;
  }
  if (std::holds_alternative<std::span<const ReducePiece>>(pieces)) return OpKind::kReduceScatter;
  if (std::holds_alternative<std::span<const AllReducePiece>>(pieces)) {
    return has_root ? OpKind::kReduce : OpKind::kAllReduce;
  }
  return OpKind::kBroadcast;
}

std::string NameOf(const Announcement& announcement) {
  return std::string(Name(KindOf(announcement)));
}

std::vector<size_t> SizesOf(const Announcement& announcement) {
  std::vector<size_t> sizes;
  std::visit(
      [&](const auto& pieces) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(pieces)>, int64_t>) {
          for (const auto& piece : pieces) sizes.push_back(SizeOf(piece));
        }
      },
      announcement.pieces);
  return sizes;
}

bool IsReduction(const Announcement& announcement) {
  return std::holds_alternative<std::span<const ReducePiece>>(announcement.pieces) ||
         std::holds_alternative<std::span<const AllReducePiece>>(announcement.pieces);
}

// What differs between two calls; empty if they fit.
std::string Difference(const Announcement& a, const Announcement& b) {
  if (KindOf(a) != KindOf(b)) return "kind";
  const std::vector<size_t> a_sizes = SizesOf(a);
  const std::vector<size_t> b_sizes = SizesOf(b);
  if (a_sizes.size() != b_sizes.size()) {
    return "number of pieces (" + std::to_string(a_sizes.size()) + " and " +
           std::to_string(b_sizes.size()) + ")";
  }
  for (size_t i = 0; i < a_sizes.size(); ++i) {
    if (a_sizes[i] == b_sizes[i]) continue;
    return "size of piece " + std::to_string(i) + " (" + std::to_string(a_sizes[i]) + " and " +
           std::to_string(b_sizes[i]) + ")";
  }
  if (a.call.root != b.call.root) return "root";
  if (!IsReduction(a)) return "";
  if (a.reduction.dtype != b.reduction.dtype) {
    return "dtype (" + std::string(plan::Name(a.reduction.dtype)) + " and " +
           std::string(plan::Name(b.reduction.dtype)) + ")";
  }
  return a.reduction.scale != b.reduction.scale ? "scale" : "";
}

std::string Describe(const Announcement& announcement) {
  return "rank " + std::to_string(announcement.call.rank) + " called " + NameOf(announcement) +
         " for '" + std::string(announcement.call.op_name) + "'";
}

std::string Mismatch(std::span<const Announcement> announced) {
  for (const Announcement& other : announced.subspan(1)) {
    const std::string difference = Difference(announced.front(), other);
    if (difference.empty()) continue;
    return "ranks differ in the " + difference +
           " of a collective: " + Describe(announced.front()) + ", " + Describe(other) +
           "; all ranks must call the same collectives in the same order";
  }
  return "";
}

// Empty if all are at the same op, or at none of a Schedule.
std::string LeftOut(std::span<const Announcement> announced) {
  const auto op_of = [](const Announcement& one) { return one.call.op; };
  const Announcement& first = *std::ranges::min_element(announced, {}, op_of);
  if (first.call.op == plan::kNone) return "";
  std::vector<int> waiting;
  std::vector<CallPlace> ahead;
  for (const Announcement& one : announced) {
    if (one.call.op_name == first.call.op_name) {
      waiting.push_back(one.call.rank);
    } else {
      ahead.push_back(PlaceOf(one.call, KindOf(one)));
    }
  }
  if (ahead.empty()) return "";
  if (!IsPair(first.call.communicator)) {
    return DescribeLeftOut(PlaceOf(first.call, KindOf(first)), waiting, ahead);
  }
  return "a rank left out a send or a receive: " + Describe(announced.front()) + ", " +
         Describe(announced.back());
}

}  // namespace

Rendezvous::Rendezvous(std::vector<int> ranks, int64_t timeout_ns, Deadline deadline,
                       DescribeRank describe)
    : ranks_(std::move(ranks)),
      spin_ns_(SpinNs(num_ranks())),
      timeout_ns_(timeout_ns),
      deadline_(std::move(deadline)),
      describe_(std::move(describe)),
      announced_(ranks_.size()),
      has_arrived_(ranks_.size(), false) {}

MetCall Rendezvous::Meet(const Announcement& announcement) {
  MutexLock lock(mutex_);
  ThrowIfAborted();
  const Party party(announcement.call, num_ranks());
  SHARDSCOPE_CHECK(party.size() == num_ranks() && party.place() >= 0 &&
                   party.place() < num_ranks());
  const auto place = static_cast<size_t>(party.place());
  announced_[place] = announcement;
  has_arrived_[place] = true;
  if (++num_arrived_ == num_ranks()) {
    ArriveLast();
    return met_;
  }
  const uint64_t generation = generation_;
  const auto may_go = [&]() REQUIRES(mutex_) {
    return generation_ != generation || aborted_.has_value();
  };
  if (timeout_ns_ == 0) {
    changed_.wait(lock, may_go);
  } else if (!WaitPatiently(&changed_, &lock, timeout_ns_, may_go)) {
    ThrowTimeout();
  }
  // A meeting that took place holds for all its ranks, even if an abort came right after.
  if (generation_ == generation) ThrowIfAborted();
  return met_;
}

void Rendezvous::ArriveLast() {
  // Whichever rank came last, the one that did not come to the op is to blame.
  if (const std::string left_out = LeftOut(announced_); !left_out.empty()) {
    aborted_ = left_out;
    is_timeout_ = true;
    changed_.notify_all();
    throw TransportTimeout(left_out);
  }
  const std::string mismatch = Mismatch(announced_);
  if (!mismatch.empty()) {
    aborted_ = mismatch;
    changed_.notify_all();
    throw TransportError(mismatch);
  }
  const int64_t* value = std::get_if<int64_t>(&announced_.front().pieces);
  met_ = {.value = value == nullptr ? 0 : *value,
          .deadline_ns = deadline_ ? deadline_(announced_) : 0,
          .all_arrived_ns = MonotonicNs()};
  has_arrived_.assign(has_arrived_.size(), false);
  num_arrived_ = 0;
  ++generation_;
  ++num_meetings_;
  changed_.notify_all();
}

void Rendezvous::Sync() {
  MutexLock lock(mutex_);
  if (++num_arrived_ == num_ranks()) {
    num_arrived_ = 0;
    ++generation_;
    changed_.notify_all();
    return;
  }
  const uint64_t generation = generation_;
  changed_.wait(lock, [&]() REQUIRES(mutex_) { return generation_ != generation; });
}

void Rendezvous::SleepUntil(int64_t deadline_ns) {
  const int64_t awake_ns = deadline_ns - spin_ns_;
  if (MonotonicNs() < awake_ns) {
    MutexLock lock(mutex_);
    changed_.wait_until(lock, TimePoint(awake_ns),
                        [&]() REQUIRES(mutex_) { return aborted_.has_value(); });
    ThrowIfAborted();
  }
  while (MonotonicNs() < deadline_ns) {
  }
}

void Rendezvous::Abort(const std::string& reason, bool is_timeout) {
  const MutexLock lock(mutex_);
  if (!aborted_) {
    aborted_ = reason;
    is_timeout_ = is_timeout;
  }
  changed_.notify_all();
}

void Rendezvous::ThrowIfAborted() const {
  if (!aborted_) return;
  if (is_timeout_) throw TransportTimeout(*aborted_);
  throw TransportError("aborted: " + *aborted_);
}

void Rendezvous::ThrowTimeout() {
  aborted_ = WhoIsMissing();
  is_timeout_ = true;
  changed_.notify_all();
  throw TransportTimeout(*aborted_);
}

std::string Rendezvous::Waiting() const {
  const MutexLock lock(mutex_);
  // After an abort those that waited may have left, and what they announced with them.
  if (aborted_) return is_timeout_ ? *aborted_ : "";
  return std::ranges::count(has_arrived_, true) > 0 ? WhoIsMissing() : "";
}

std::string Rendezvous::WhoIsMissing() const {
  std::vector<std::string> missing;
  std::vector<std::string> waiting;
  const Announcement* announcement = nullptr;
  for (size_t place = 0; place < has_arrived_.size(); ++place) {
    if (has_arrived_[place]) {
      waiting.push_back(std::to_string(ranks_[place]));
      announcement = &announced_[place];
    } else {
      missing.push_back(describe_(ranks_[place]));
    }
  }
  // Of this communicator: the number that the trace would have given to the collective.
  std::string place = "sequence " + std::to_string(num_meetings_);
  const plan::OpIndex op = announcement->call.op;
  if (op != plan::kNone) place = "op " + std::to_string(op) + ", " + place;
  return Join(missing, "; ") + (waiting.size() == 1 ? "; rank " : "; ranks ") +
         Join(waiting, ", ") + (waiting.size() == 1 ? " waits" : " wait") + " for " +
         (missing.size() == 1 ? "it" : "them") + " in " + NameOf(*announcement) + " '" +
         std::string(announcement->call.op_name) + "' (" + place +
         "), longer than comm.timeout=" + FormatDuration(timeout_ns_);
}

}  // namespace shardscope::transport
