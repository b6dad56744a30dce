#include "trace/analysis/memory/memory.h"

#include <algorithm>

namespace shardscope::analysis {
namespace {

// What a peak needs of an event: millions are held.
struct Change {
  int64_t time_ns = 0;
  int64_t bytes = 0;
  query::MemoryCategory category = query::MemoryCategory::kOther;
};

bool Earlier(const Change& a, const Change& b) { return a.time_ns < b.time_ns; }

void AddDevice(const query::RankRows& rows, MemoryPeak* peak) {
  std::vector<query::MemorySegment> segments(rows.segments.begin(), rows.segments.end());
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  int64_t held = 0;
  for (const query::MemorySegment& segment : segments) {
    held = std::max<int64_t>(held + segment.bytes, 0);  // what was there before is unknown
    peak->driver_peak_bytes = std::max(peak->driver_peak_bytes, held);
  }
  for (const query::MemoryCounter& used : rows.device_used) {
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
  int64_t last = -1;
  for (const auto& [step, schedule] : schedule_of) {
    auto& stretches = steps[schedule];
    if (schedule == last && stretches.back().second == step - 1) {
      stretches.back().second = step;
    } else {
      stretches.emplace_back(step, step);
    }
    last = schedule;
  }
  return steps;
}

}  // namespace

std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot, Ledger ledger) {
  std::vector<MemoryPeak> peaks;
  std::vector<Change> changes;
  for (const query::RankRows& rows : snapshot.ranks) {
    changes.clear();
    changes.reserve(rows.memory.size());
    for (const query::MemoryEvent& event : rows.memory) {
      changes.push_back({ledger == Ledger::kIssue ? event.issued_ns : event.executed_ns,
                         event.bytes, event.category});
    }
    if (!std::is_sorted(changes.begin(), changes.end(), Earlier)) {
      std::stable_sort(changes.begin(), changes.end(), Earlier);
    }
    MemoryPeak peak;
    peak.rank = rows.rank;
    CategoryBytes live{};
    int64_t total = 0;
    ScheduleSweep schedules(rows, &peak.of_schedule);
    for (const Change& change : changes) {
      schedules.Change(change.time_ns, total, total + change.bytes);
      const auto category = static_cast<size_t>(change.category);
      live[category] += change.bytes;
      total += change.bytes;
      peak.peak_of[category] = std::max(peak.peak_of[category], live[category]);
      if (total <= peak.peak_bytes) continue;
      peak.peak_bytes = total;
      peak.peak_time_ns = change.time_ns;
      peak.at_peak = live;
    }
    AddDevice(rows, &peak);
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
