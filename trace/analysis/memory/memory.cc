#include "trace/analysis/memory/memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "trace/analysis/derived/derived.h"

namespace shardscope::analysis {
namespace {

// What a peak needs of an event: millions are held.
struct Change {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  query::MemoryCategory category = query::MemoryCategory::kOther;
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
  ScheduleSweep(const query::RankRows& rows, std::map<int64_t, int64_t>* peaks)
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
  std::map<int64_t, int64_t>* const peaks_;
};

// The steps of each Schedule, of whichever rank has finished them, as stretches.
std::map<int64_t, std::vector<std::pair<int, int>>> StepsOfSchedules(
    const query::Snapshot& snapshot) {
  std::map<int, int64_t> schedule_of;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& step : rows.steps) schedule_of.emplace(step.step, step.schedule);
  }
  std::map<int64_t, std::vector<std::pair<int, int>>> steps;
  int64_t last = -1;  // also the schedule of a run without one
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

std::vector<Change> ChangesOf(const query::RankRows& rows, Ledger ledger) {
  std::vector<Change> changes;
  changes.reserve(rows.memory.size());
  for (const query::MemoryEvent& event : rows.memory) {
    changes.push_back({ledger == Ledger::kIssue ? event.issued_ns : event.executed_ns, event.bytes,
                       event.category});
  }
  if (!std::is_sorted(changes.begin(), changes.end(), Earlier)) {
    std::stable_sort(changes.begin(), changes.end(), Earlier);
  }
  return changes;
}

// What is live from one change on until the next.
struct Live {
  int64_t time_ns = INT64_MIN;
  int64_t total = 0;
  CategoryBytes bytes{};

  void Take(const Change& change) {
    time_ns = change.time_ns;
    total += change.bytes;
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
  for (const Change& change : ChangesOf(rows, ledger)) {
    if (change.time_ns > window.to_ns) break;
    if (change.time_ns >= window.from_ns && !std::exchange(inside, true)) live.Raise(&peak);
    schedules.Change(change.time_ns, live.total, live.total + change.bytes);
    live.Take(change);
    if (inside) live.Raise(&peak);
  }
  if (!inside) live.Raise(&peak);  // nothing changed in it
  AddDevice(rows, window, &peak);
  return peak;
}

// nullopt: the rank has none of these steps.
std::optional<Window> WindowOf(const query::RankRows& rows, int32_t first, int32_t last) {
  std::optional<Window> window;
  rows.steps.ForEachOfSteps(first, last, [&](const query::Step& step, size_t) {
    if (!window) window = Window{step.start_ns, step.end_ns};
    window->from_ns = std::min(window->from_ns, step.start_ns);
    window->to_ns = std::max(window->to_ns, step.end_ns);
  });
  return window;
}

}  // namespace

std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger) {
  if (snapshot.derived && ledger == Ledger::kExecution) return DerivedMemoryPeaks(snapshot);
  std::vector<MemoryPeak> peaks;
  for (const query::RankRows& rows : snapshot.ranks) peaks.push_back(PeakOf(rows, ledger, {}));
  return peaks;
}

std::vector<MemoryPeak> MemoryPeaksOfSteps(const query::Snapshot& snapshot, int32_t first,
                                           int32_t last) {
  std::vector<MemoryPeak> peaks;
  for (const query::RankRows& rows : snapshot.ranks) {
    const auto window = WindowOf(rows, first, last);
    peaks.push_back(window ? PeakOf(rows, Ledger::kExecution, *window)
                           : MemoryPeak{.rank = rows.rank});
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
    memory.name = schedule->second.name;
    memory.steps = steps;
    memory.predicted_bytes = schedule->second.predicted_peak_bytes;
    memory.bound_bytes = schedule->second.executed_bound_bytes;
    for (const MemoryPeak& peak : peaks) {
      const auto found = peak.of_schedule.find(id);
      if (found == peak.of_schedule.end() || found->second <= memory.peak_bytes) continue;
      memory.peak_bytes = found->second;
      memory.peak_rank = peak.rank;
    }
    result.push_back(std::move(memory));
  }
  std::sort(result.begin(), result.end(), [](const ScheduleMemory& a, const ScheduleMemory& b) {
    return a.steps.front() < b.steps.front();
  });
  return result;
}

}  // namespace shardscope::analysis
