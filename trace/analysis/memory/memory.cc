#include "trace/analysis/memory/memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "trace/analysis/derived.h"
#include "trace/query/step_times.h"

namespace shardscope::analysis {
namespace {

// What a peak needs of an event: millions are held.
struct Change {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  query::MemoryCategory category = query::MemoryCategory::kOther;
  int64_t in_total() const { return InTotal(category, bytes); }
};

bool Earlier(const Change& a, const Change& b) { return a.time_ns < b.time_ns; }

// Both ends belong to it.
struct Window {
  int64_t from_ns = INT64_MIN;
  int64_t to_ns = INT64_MAX;
};

void AddDevice(const query::RankRows& rows, const Window& window, MemoryPeak* peak) {
  std::vector<query::MemorySegment> segments(rows.segments.begin(), rows.segments.end());
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  int64_t held = 0;
  for (const query::MemorySegment& segment : segments) {
    if (segment.time_ns > window.to_ns) break;
    if (segment.time_ns >= window.from_ns) {
      peak->driver_peak_bytes = std::max(peak->driver_peak_bytes, held);
    }
    held = std::max<int64_t>(held + segment.bytes, 0);  // what was there before is unknown
  }
  peak->driver_peak_bytes = std::max(peak->driver_peak_bytes, held);
  for (const query::MemoryCounter& used : rows.device_used) {
    if (used.time_ns < window.from_ns || used.time_ns > window.to_ns) continue;
    peak->device_peak_bytes = std::max(peak->device_peak_bytes, used.bytes);
  }
}

// Peaks of one rank's steps by their Schedule, while its changes go by in time order.
class ScheduleSweep {
 public:
  ScheduleSweep(const query::RankRows& rows, std::map<query::ScheduleId, int64_t>* peaks)
      : step_(rows.steps.begin()), end_(rows.steps.end()), peaks_(peaks) {}

  void Change(int64_t time_ns, int64_t before, int64_t after) {
    while (step_ != end_ && step_->end_ns < time_ns) ++step_;
    if (step_ == end_ || time_ns < step_->start_ns) return;
    int64_t& peak = (*peaks_)[step_->schedule];
    peak = std::max({peak, before, after});
  }

 private:
  using Iterator = query::RowList<query::Step>::Iterator;
  Iterator step_;
  const Iterator end_;
  std::map<query::ScheduleId, int64_t>* const peaks_;
};

// The steps of each Schedule, of whichever rank has finished them, as stretches.
std::map<query::ScheduleId, std::vector<std::pair<int, int>>> StepsOfSchedules(
    const query::Snapshot& snapshot) {
  std::map<int, query::ScheduleId> schedule_of;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& step : rows.steps) schedule_of.emplace(step.step, step.schedule);
  }
  std::map<query::ScheduleId, std::vector<std::pair<int, int>>> steps;
  auto last = query::ScheduleId::None();  // also the schedule of a run without one
  for (const auto& [step, schedule] : schedule_of) {
    auto& stretches = steps[schedule];
    if (schedule == last && !stretches.empty() && stretches.back().second == step - 1) {
      stretches.back().second = step;
    } else {
      stretches.emplace_back(step, step);
    }
    last = schedule;
  }
  return steps;
}

// Each file of a run has its Schedules under ids of its own.
bool AreOne(const query::Snapshot& snapshot, query::ScheduleId a, query::ScheduleId b) {
  if (a == b) return true;
  const auto one = snapshot.schedules.find(a);
  const auto other = snapshot.schedules.find(b);
  return one != snapshot.schedules.end() && other != snapshot.schedules.end() &&
         one->second.name == other->second.name && one->second.text == other->second.text;
}

// A rank's changes in the order of their times. Mostly its rows are in that order: then they are
// read where they are, for copies of millions cost more than what is done with them.
class ChangesInOrder {
 public:
  ChangesInOrder(const query::RankRows& rows, Ledger ledger)
      : events_(rows.memory), ledger_(ledger) {
    int64_t before_ns = INT64_MIN;
    for (size_t at = 0; at < events_.size(); ++at) {
      const int64_t time_ns = OfEvent(at).time_ns;
      if (time_ns < before_ns) {
        Sort();
        return;
      }
      before_ns = time_ns;
    }
  }

  size_t size() const { return events_.size(); }
  Change operator[](size_t at) const { return sorted_.empty() ? OfEvent(at) : sorted_[at]; }

 private:
  Change OfEvent(size_t at) const {
    const query::MemoryEvent& event = events_[at];
    return {ledger_ == Ledger::kIssue ? event.issued_ns : event.executed_ns, event.bytes,
            event.category};
  }
  void Sort() {
    sorted_.reserve(events_.size());
    for (size_t at = 0; at < events_.size(); ++at) sorted_.push_back(OfEvent(at));
    std::stable_sort(sorted_.begin(), sorted_.end(), Earlier);
  }

  const query::RowList<query::MemoryEvent>& events_;
  const Ledger ledger_;
  std::vector<Change> sorted_;  // empty: the events are in order
};

// What is live from one change on until the next.
struct Live {
  int64_t time_ns = INT64_MIN;
  int64_t total = 0;
  CategoryBytes bytes{};

  void Take(const Change& change) {
    time_ns = change.time_ns;
    total += change.in_total();
    bytes[static_cast<size_t>(change.category)] += change.bytes;
  }
  void Raise(MemoryPeak* peak) const {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] <= peak->peak_of[i]) continue;
      peak->peak_of[i] = bytes[i];
      peak->peak_of_time_ns[i] = time_ns;
    }
    if (total <= peak->peak_bytes) return;
    peak->peak_bytes = total;
    peak->peak_time_ns = time_ns;
    peak->at_peak = bytes;
  }
};

MemoryPeak PeakOf(const query::RankRows& rows, Ledger ledger, const Window& window) {
  MemoryPeak peak;
  peak.rank = rows.rank;
  Live live;
  ScheduleSweep schedules(rows, &peak.of_schedule);
  bool inside = false;
  const ChangesInOrder changes(rows, ledger);
  for (size_t at = 0; at < changes.size(); ++at) {
    const Change change = changes[at];
    if (change.time_ns > window.to_ns) break;
    if (change.time_ns >= window.from_ns && !std::exchange(inside, true)) live.Raise(&peak);
    schedules.Change(change.time_ns, live.total, live.total + change.in_total());
    live.Take(change);
    if (inside) live.Raise(&peak);
  }
  if (!inside) live.Raise(&peak);  // nothing changed in it
  AddDevice(rows, window, &peak);
  return peak;
}

// Start -> latest end among all ranges of NCCL's own NVTX domain that began until then, which the
// recorder names "NCCL: ...".
std::map<int64_t, int64_t> NcclRanges(const query::Snapshot& snapshot,
                                      const query::RankRows& rows) {
  std::vector<bool> is_nccl;
  for (const std::string& name : snapshot.names) is_nccl.push_back(name.starts_with("NCCL: "));
  std::map<int64_t, int64_t> ranges;
  if (rows.segments.empty() || std::find(is_nccl.begin(), is_nccl.end(), true) == is_nccl.end()) {
    return ranges;
  }
  for (const query::Span& span : rows.spans) {
    if (!is_nccl[static_cast<size_t>(span.name)]) continue;
    int64_t& end_ns = ranges[span.start_ns];
    end_ns = std::max(end_ns, span.end_ns);
  }
  int64_t latest_ns = INT64_MIN;
  for (auto& [start_ns, end_ns] : ranges) latest_ns = end_ns = std::max(end_ns, latest_ns);
  return ranges;
}

}  // namespace

std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger) {
  std::vector<MemoryPeak> peaks;
  if (snapshot.derived && ledger == Ledger::kExecution) {
    peaks = DerivedMemoryPeaks(snapshot);
    for (size_t at = 0; at < peaks.size(); ++at) AddDevice(snapshot.ranks[at], {}, &peaks[at]);
    return peaks;
  }
  for (const query::RankRows& rows : snapshot.ranks) peaks.push_back(PeakOf(rows, ledger, {}));
  return peaks;
}

std::optional<query::BlocksQuery> BlocksAtPeak(const std::vector<MemoryPeak>& peaks,
                                               std::optional<int32_t> rank) {
  const MemoryPeak* highest = nullptr;
  for (const MemoryPeak& peak : peaks) {
    if (peak.peak_bytes == 0 || (rank && peak.rank != *rank)) continue;
    if (highest == nullptr || peak.peak_bytes > highest->peak_bytes) highest = &peak;
  }
  if (highest == nullptr) return std::nullopt;
  return query::BlocksQuery{.rank = highest->rank, .at_ns = highest->peak_time_ns};
}

std::vector<MemoryPeak> MemoryPeaksOfSteps(const query::Snapshot& snapshot, int32_t first,
                                           int32_t last) {
  std::vector<MemoryPeak> peaks;
  for (const query::RankRows& rows : snapshot.ranks) {
    std::optional<Interval> times;
    query::AddTimesOfSteps(rows, first, last, &times);
    peaks.push_back(times ? PeakOf(rows, Ledger::kExecution, {times->start_ns, times->end_ns})
                          : MemoryPeak{.rank = rows.rank});
  }
  return peaks;
}

std::vector<int64_t> PeakBytesOfEachStep(const query::RankRows& rows) {
  const ChangesInOrder changes(rows, Ledger::kExecution);
  size_t first = 0;  // change of the step at hand
  int64_t before = 0;
  int64_t start_ns = INT64_MIN;
  std::vector<int64_t> peaks;
  peaks.reserve(rows.steps.size());
  for (const query::Step& step : rows.steps) {
    // Steps of a damaged file may begin in any order.
    if (step.start_ns < std::exchange(start_ns, step.start_ns)) {
      first = 0;
      before = 0;
    }
    for (; first < changes.size() && changes[first].time_ns < step.start_ns; ++first) {
      before += changes[first].in_total();
    }
    int64_t live = before;
    int64_t peak = std::max<int64_t>(live, 0);
    for (size_t at = first; at < changes.size() && changes[at].time_ns <= step.end_ns; ++at) {
      live += changes[at].in_total();
      peak = std::max(peak, live);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<ScheduleMemory> MemoryOfSchedules(const query::Snapshot& snapshot,
                                              const std::vector<MemoryPeak>& peaks) {
  std::vector<ScheduleMemory> result;
  for (auto& [id, steps] : StepsOfSchedules(snapshot)) {
    const auto schedule = snapshot.schedules.find(id);
    if (schedule == snapshot.schedules.end()) continue;
    ScheduleMemory memory;
    memory.id = id;
    memory.name = schedule->second.name;
    memory.steps = steps;
    memory.predicted_bytes = schedule->second.largest.predicted_bytes;
    memory.bound_bytes = schedule->second.largest.bound_bytes;
    for (const MemoryPeak& peak : peaks) {
      for (const auto& [of_rank, bytes] : peak.of_schedule) {
        if (bytes <= memory.peak_bytes || !AreOne(snapshot, id, of_rank)) continue;
        memory.peak_bytes = bytes;
        memory.peak_rank = peak.rank;
      }
    }
    result.push_back(std::move(memory));
  }
  std::sort(result.begin(), result.end(), [](const ScheduleMemory& a, const ScheduleMemory& b) {
    return a.steps.front() < b.steps.front();
  });
  return result;
}

bool MemoryTimeline::Advance(const query::Snapshot& snapshot, size_t max_events) {
  const query::RankRows* rows = snapshot.FindRank(rank_);
  if (rows == nullptr || changes_.size() >= rows->memory.size()) return true;
  const size_t old_size = changes_.size();
  const size_t new_size = old_size + std::min(max_events, rows->memory.size() - old_size);
  // Once for a loaded trace; by the vector's own steps for a growing one.
  if (rows->memory.size() > 2 * changes_.capacity()) changes_.reserve(rows->memory.size());
  for (size_t at = old_size; at < new_size; ++at) {
    const query::MemoryEvent& event = rows->memory[at];
    Change change;
    change.time_ns = ledger_ == Ledger::kIssue ? event.issued_ns : event.executed_ns;
    change.bytes = event.bytes;
    change.category = static_cast<uint64_t>(event.category);
    changes_.push_back(change);
  }
  const auto middle = changes_.begin() + static_cast<std::ptrdiff_t>(old_size);
  if (!std::is_sorted(middle, changes_.end(), Earlier)) {
    std::stable_sort(middle, changes_.end(), Earlier);
  }
  // Late events are younger in commit order, so they go behind old ones of the same time.
  const auto first_changed = std::upper_bound(changes_.begin(), middle, *middle, Earlier);
  const auto keep = static_cast<size_t>(first_changed - changes_.begin());
  std::inplace_merge(first_changed, middle, changes_.end(), Earlier);
  MakeBlocks(keep);
  return new_size == rows->memory.size();
}

void MemoryTimeline::MakeBlocks(size_t first_changed) {
  const size_t first_block = first_changed / kBlock;
  Point point;
  if (first_block > 0) point = At(first_block * kBlock - 1);
  blocks_.resize(first_block);
  block_start_ns_.resize(first_block);
  for (size_t at = first_block * kBlock; at < changes_.size(); ++at) {
    if (at % kBlock == 0) {
      Block block;
      block.before = point.bytes;
      block.total_before = point.total;
      blocks_.push_back(block);
      block_start_ns_.push_back(changes_[at].time_ns);
    }
    Step(at, &point);
    Block& block = blocks_.back();
    if (point.total <= block.largest_total) continue;
    block.largest_total = point.total;
    block.largest = at;
  }
}

void MemoryTimeline::Step(size_t at, Point* point) const {
  const Change& change = changes_[at];
  point->time_ns = change.time_ns;
  point->bytes[change.category] += change.bytes;
  point->total += change.in_total();
}

MemoryTimeline::Point MemoryTimeline::At(size_t at) const {
  const Block& block = blocks_[at / kBlock];
  Point point{0, block.before, block.total_before};
  for (size_t next = at / kBlock * kBlock; next <= at; ++next) Step(next, &point);
  return point;
}

size_t MemoryTimeline::BlockAt(int64_t time_ns, size_t first) const {
  const auto begin = block_start_ns_.begin() + static_cast<std::ptrdiff_t>(first / kBlock);
  const auto block = std::lower_bound(begin, block_start_ns_.end(), time_ns);
  return static_cast<size_t>(block - block_start_ns_.begin());
}

size_t MemoryTimeline::FirstInFrontOf(size_t block, int64_t time_ns, size_t first) const {
  size_t at = std::max(first, (std::max<size_t>(block, 1) - 1) * kBlock);
  while (at < changes_.size() && changes_[at].time_ns < time_ns) ++at;
  return at;
}

size_t MemoryTimeline::FirstAt(int64_t time_ns, size_t first) const {
  return FirstInFrontOf(BlockAt(time_ns, first), time_ns, first);
}

size_t MemoryTimeline::FirstNear(int64_t time_ns, int64_t latest_ns, size_t first) const {
  const size_t block = BlockAt(time_ns, first);
  const size_t at = block * kBlock;
  const bool is_near = block < blocks_.size() && block_start_ns_[block] <= latest_ns;
  // Points in front of it may have the same time.
  const bool is_dense = at >= first + kManyPoints;
  if (is_near && is_dense && changes_[at - 1].time_ns < block_start_ns_[block]) return at;
  return FirstInFrontOf(block, time_ns, first);
}

size_t MemoryTimeline::Largest(size_t first, size_t last) const {
  size_t largest = first;
  int64_t largest_total = INT64_MIN;
  int64_t total = 0;  // live before `at`, where its block is not seen whole
  for (size_t at = first; at < last;) {
    const Block& block = blocks_[at / kBlock];
    const size_t block_end = std::min((at / kBlock + 1) * kBlock, changes_.size());
    if (at % kBlock == 0 && block_end <= last) {
      if (block.largest_total > largest_total) {
        largest_total = block.largest_total;
        largest = block.largest;
      }
      at = block_end;
      continue;
    }
    if (at % kBlock == 0) total = block.total_before;
    if (at == first) total = at == 0 ? 0 : At(at).total - changes_[at].in_total();
    total += changes_[at].in_total();
    if (total > largest_total) {
      largest_total = total;
      largest = at;
    }
    ++at;
  }
  return largest;
}

std::vector<bool> SegmentsOfNccl(const query::Snapshot& snapshot, const query::RankRows& rows) {
  std::vector<bool> of_nccl(rows.segments.size(), false);
  const std::map<int64_t, int64_t> ranges = NcclRanges(snapshot, rows);
  if (ranges.empty()) return of_nccl;
  const auto is_in_nccl = [&ranges](int64_t time_ns) {
    const auto next = ranges.upper_bound(time_ns);
    return next != ranges.begin() && std::prev(next)->second >= time_ns;
  };
  std::vector<size_t> order(rows.segments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&rows](size_t a, size_t b) {
    return rows.segments[a].time_ns < rows.segments[b].time_ns;
  });
  std::map<std::pair<int32_t, int64_t>, bool> owners;  // by GPU and address
  for (const size_t at : order) {
    const query::MemorySegment& segment = rows.segments[at];
    const std::pair<int32_t, int64_t> place(segment.device, segment.address);
    if (segment.bytes > 0) {
      owners[place] = of_nccl[at] = is_in_nccl(segment.time_ns);
    } else if (const auto owner = owners.find(place); owner != owners.end()) {
      of_nccl[at] = owner->second;
      owners.erase(owner);
    }
  }
  return of_nccl;
}

}  // namespace shardscope::analysis
