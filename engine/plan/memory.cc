#include "engine/plan/memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/plan/checks/happens_before.h"

namespace shardscope::plan {
namespace {

class Ledger {
 public:
  void Add(const Buffer& buffer) {
    Change(buffer, 1);
    const size_t category = Index(buffer);
    peak_.total = std::max(peak_.total, now_.total);
    peak_.by_category[category] = std::max(peak_.by_category[category], now_.by_category[category]);
    peak_.transient = std::max(peak_.transient, now_.transient);
  }
  void Remove(const Buffer& buffer) { Change(buffer, -1); }
  const MemoryPeak& peak() const { return peak_; }

 private:
  static size_t Index(const Buffer& buffer) {
    return static_cast<size_t>(MemoryCategoryOf(buffer.kind));
  }
  void Change(const Buffer& buffer, int64_t sign) {
    if (buffer.slot != kNone) return;
    const int64_t bytes = sign * buffer.bytes;
    const MemoryCategory category = MemoryCategoryOf(buffer.kind);
    if (category != MemoryCategory::kHost) now_.total += bytes;
    now_.by_category[Index(buffer)] += bytes;
    if (category == MemoryCategory::kUnshardedParameter ||
        category == MemoryCategory::kCommunicationBuffer) {
      now_.transient += bytes;
    }
  }

  MemoryPeak now_;
  MemoryPeak peak_;
};

MemoryPeak PeakOf(const Program& program) {
  Ledger ledger;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent) ledger.Add(buffer);
  }
  for (const Op& op : program.ops) {
    for (const BufferId id : op.allocates) ledger.Add(program.buffers[static_cast<size_t>(id)]);
    for (const BufferId id : op.frees) ledger.Remove(program.buffers[static_cast<size_t>(id)]);
  }
  return ledger.peak();
}

// Note: the bound
// At any moment some ops have started, and some of these have ended. Live is what the former
// allocated, and their temporaries, less what the latter freed, and theirs. Where an op has
// started, all that it waits for has ended, and every set of starts and ends that is closed in this
// way is a moment of some order: the bound is the heaviest. That is what all allocations weigh
// together less the most of them that frees can pay for, each byte freed for one byte allocated by
// an op that surely starts after the free (Picard, Management Science 22, 1976: the closed set is a
// minimum cut, the payment a maximum flow). Allocations are paid in host order. Where one finds
// nothing left, ops that took what it may use as well look for another free, as along an augmenting
// path; where none of them finds one either, no later allocation will find any there, and these
// frees are never looked at again.
class Bound {
 public:
  Bound(const Schedule& schedule, const Program& program, const Unlisted& unlisted)
      : program_(program),
        unlisted_(unlisted),
        order_(program, static_cast<int>(schedule.streams.size())),
        left_(program.ops.size()),
        paid_for_(program.ops.size()),
        earlier_(program.ops.size()),
        seen_(program.ops.size()),
        closed_(schedule.streams.size(), kNone) {
    std::vector<OpIndex> last(schedule.streams.size(), kNone);
    for (OpIndex index = 0; index < NumOps(); ++index) {
      const Op& op = OpAt(index);
      At(left_, index) = BytesOf(op.frees) + TemporaryOf(op);
      At(earlier_, index) = std::exchange(last[static_cast<size_t>(op.stream)], index);
    }
    skip_ = earlier_;
  }

  // To be called once.
  int64_t Peak() {
    int64_t peak = 0;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.persistent) peak += BytesOf(buffer);
    }
    for (OpIndex index = 0; index < NumOps(); ++index) {
      int64_t bytes = BytesOf(OpAt(index).allocates) + TemporaryOf(OpAt(index));
      while (bytes > 0) {
        const int64_t paid = Pay(index, bytes);
        if (paid == 0) break;
        bytes -= paid;
      }
      if (bytes > 0) unpaid_.push_back(index);
      peak += bytes;
    }
    return peak;
  }

  // What is live in the heaviest set. After Peak().
  PeakMoment Moment() const {
    const Set set = HeaviestSet();
    Holdings holdings;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.persistent) Hold(buffer, 1, &holdings);
    }
    PeakMoment moment;
    for (OpIndex index = 0; index < NumOps(); ++index) {
      const Op& op = OpAt(index);
      const bool has_ended = index <= set.ended[static_cast<size_t>(op.stream)];
      if (!has_ended && !set.started[static_cast<size_t>(index)]) continue;
      for (const BufferId id : op.allocates) Hold(BufferAt(id), 1, &holdings);
      if (has_ended) {
        for (const BufferId id : op.frees) Hold(BufferAt(id), -1, &holdings);
        continue;
      }
      moment.op = index;
      holdings[{MemoryCategory::kTemporary, op.unit, op.segment}] += TemporaryOf(op);
    }
    for (const auto& [holder, bytes] : holdings) {
      if (bytes == 0) continue;
      const auto& [category, unit, segment] = holder;
      moment.live.push_back({category, unit, segment, bytes});
      moment.by_category[static_cast<size_t>(category)] += bytes;
      moment.total += bytes;
    }
    std::ranges::stable_sort(moment.live, std::ranges::greater(), &LiveBytes::bytes);
    return moment;
  }

 private:
  using Holdings = std::map<std::tuple<MemoryCategory, int32_t, int32_t>, int64_t>;
  struct Set {
    std::vector<char> started;   // by op; of those that have ended only if they allocate
    std::vector<OpIndex> ended;  // by stream: the last one
  };

  // Starts that nothing pays for, all that must have ended before them, and the starts that these
  // frees pay for.
  Set HeaviestSet() const {
    Set set{std::vector<char>(program_.ops.size()), std::vector<OpIndex>(closed_.size(), kNone)};
    std::vector<OpIndex> reached = unpaid_;
    for (const OpIndex op : reached) set.started[static_cast<size_t>(op)] = 1;
    while (!reached.empty()) {
      const OpIndex op = reached.back();
      reached.pop_back();
      const std::vector<OpIndex>& before = order_.EndedBefore(op);
      for (size_t stream = 0; stream < before.size(); ++stream) {
        OpIndex& ended = set.ended[stream];
        for (OpIndex free = before[stream]; free > ended; free = At(earlier_, free)) {
          for (const auto& [taker, amount] : At(paid_for_, free)) {
            if (std::exchange(set.started[static_cast<size_t>(taker)], 1) == 0) {
              reached.push_back(taker);
            }
          }
        }
        ended = std::max(ended, before[stream]);
      }
    }
    return set;
  }

  // A buffer's bytes, signed, and the gaps beside it.
  void Hold(const Buffer& buffer, int64_t sign, Holdings* holdings) const {
    const MemoryCategory category = MemoryCategoryOf(buffer.kind);
    if (buffer.slot != kNone || category == MemoryCategory::kHost) return;
    (*holdings)[{category, buffer.unit, buffer.segment}] += sign * buffer.bytes;
    (*holdings)[{MemoryCategory::kOther, buffer.unit, buffer.segment}] +=
        sign * (BytesOf(buffer) - buffer.bytes);
  }
  const Buffer& BufferAt(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  // An op that looks for a free, so that `asking` (a position in the search) can have `free`, which
  // it has taken.
  struct Asked {
    OpIndex op = kNone;
    int32_t asking = -1;  // -1: the op whose allocation is to be paid
    OpIndex free = kNone;
  };

  // Pays a part of what `op` allocates, at most `bytes`; 0 if nothing can.
  int64_t Pay(OpIndex op, int64_t bytes) {
    std::vector<Asked> asked = {{op}};
    At(seen_, op) = ++num_searches_;
    std::vector<OpIndex> searched = closed_;  // by stream: up to this free
    for (size_t next = 0; next < asked.size(); ++next) {
      const std::vector<OpIndex>& ended = order_.EndedBefore(asked[next].op);
      for (const OpIndex last : ended) {
        const OpIndex free = LatestLeft(last);
        if (free != kNone) return Move(asked, next, free, bytes);
      }
      for (size_t stream = 0; stream < ended.size(); ++stream) {
        for (OpIndex free = ended[stream]; free > searched[stream]; free = At(earlier_, free)) {
          for (const auto& [taker, amount] : At(paid_for_, free)) {
            if (std::exchange(At(seen_, taker), num_searches_) == num_searches_) continue;
            asked.push_back({taker, static_cast<int32_t>(next), free});
          }
        }
        searched[stream] = std::max(searched[stream], ended[stream]);
      }
    }
    closed_ = std::move(searched);
    return 0;
  }

  // The last op of its stream up to `index` that freed what is not used up.
  OpIndex LatestLeft(OpIndex index) {
    OpIndex found = index;
    while (found != kNone && At(left_, found) == 0) found = At(skip_, found);
    // The way is shorter next time.
    while (index != found) index = std::exchange(At(skip_, index), found);
    return found;
  }

  // asked[at] takes `free` and leaves what it had to the op that asked, and so on.
  int64_t Move(const std::vector<Asked>& asked, size_t at, OpIndex free, int64_t bytes) {
    int64_t amount = std::min(bytes, At(left_, free));
    for (size_t i = at; asked[i].asking >= 0; i = static_cast<size_t>(asked[i].asking)) {
      amount = std::min(amount, At(paid_for_, asked[i].free).at(asked[i].op));
    }
    At(left_, free) -= amount;
    for (size_t i = at;; i = static_cast<size_t>(asked[i].asking)) {
      At(paid_for_, free)[asked[i].op] += amount;
      if (asked[i].asking < 0) return amount;
      free = asked[i].free;
      auto& takers = At(paid_for_, free);
      const auto taker = takers.find(asked[i].op);
      taker->second -= amount;
      if (taker->second == 0) takers.erase(taker);
    }
  }

  int64_t TemporaryOf(const Op& op) const {
    return unlisted_.temporary_bytes ? unlisted_.temporary_bytes(op) : 0;
  }
  int64_t BytesOf(const std::vector<BufferId>& ids) const {
    int64_t bytes = 0;
    for (const BufferId id : ids) bytes += BytesOf(BufferAt(id));
    return bytes;
  }
  int64_t BytesOf(const Buffer& buffer) const {
    if (buffer.slot != kNone || MemoryCategoryOf(buffer.kind) == MemoryCategory::kHost) return 0;
    return buffer.bytes + (unlisted_.beside_bytes ? unlisted_.beside_bytes(buffer) : 0);
  }
  OpIndex NumOps() const { return static_cast<OpIndex>(program_.ops.size()); }
  const Op& OpAt(OpIndex index) const { return program_.ops[static_cast<size_t>(index)]; }
  template <typename T>
  static T& At(std::vector<T>& by_op, OpIndex index) {
    return by_op[static_cast<size_t>(index)];
  }
  template <typename T>
  static const T& At(const std::vector<T>& by_op, OpIndex index) {
    return by_op[static_cast<size_t>(index)];
  }

  const Program& program_;
  const Unlisted& unlisted_;
  const HappensBefore order_;
  std::vector<int64_t> left_;                         // by op: freed, and not yet used
  std::vector<std::map<OpIndex, int64_t>> paid_for_;  // by op: which use what it freed
  std::vector<OpIndex> earlier_;                      // by op: the one before on its stream
  std::vector<OpIndex> skip_;                         // by op: over some that are used up
  std::vector<int32_t> seen_;                         // by op: the last search that asked it
  int32_t num_searches_ = 0;
  std::vector<OpIndex> closed_;  // by stream: frees that are used up
  std::vector<OpIndex> unpaid_;  // ops of whose allocation something is left
};

int64_t LargestOf(const std::vector<int64_t>& peaks) {
  return peaks.empty() ? 0 : *std::max_element(peaks.begin(), peaks.end());
}

}  // namespace

MemoryPeak PredictPeak(const Schedule& schedule, int rank) {
  return PeakOf(schedule.ProgramOf(rank));
}

std::vector<int64_t> PredictPeaks(const Schedule& schedule) {
  std::vector<int64_t> peaks;
  for (const Program& program : schedule.programs) peaks.push_back(PeakOf(program).total);
  return peaks;
}

int64_t PredictLargestPeak(const Schedule& schedule) { return LargestOf(PredictPeaks(schedule)); }

std::vector<int64_t> BoundPeaks(const Schedule& schedule, const Unlisted& unlisted) {
  std::vector<int64_t> peaks;
  for (const Program& program : schedule.programs) {
    peaks.push_back(Bound(schedule, program, unlisted).Peak());
  }
  return peaks;
}

PeakMoment HeaviestMoment(const Schedule& schedule, int rank, const Unlisted& unlisted) {
  Bound bound(schedule, schedule.ProgramOf(rank), unlisted);
  bound.Peak();
  PeakMoment moment = bound.Moment();
  moment.rank = rank;
  return moment;
}

PeakMoment LargestMoment(const Schedule& schedule, const Unlisted& unlisted) {
  PeakMoment largest;
  for (int32_t program = 0; program < std::ssize(schedule.programs); ++program) {
    const auto rank = std::ranges::find(schedule.program_of_rank, program);
    if (rank == schedule.program_of_rank.end()) continue;
    PeakMoment moment = HeaviestMoment(
        schedule, static_cast<int>(rank - schedule.program_of_rank.begin()), unlisted);
    if (moment.total > largest.total) largest = std::move(moment);
  }
  return largest;
}

int64_t BoundLargestPeak(const Schedule& schedule, const Unlisted& unlisted) {
  return LargestOf(BoundPeaks(schedule, unlisted));
}

}  // namespace shardscope::plan
