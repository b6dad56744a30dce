#include "trace/analysis/report.h"

#include <algorithm>
#include <limits>

namespace shardscope::analysis {
namespace {

constexpr size_t kListed = 20;  // rows of the two lists
// Steps looked at at a time: what is known of each of their ops is in memory meanwhile.
constexpr int64_t kStepsAtATime = 256;

std::string ConfigValue(const query::Snapshot& snapshot, const std::string& key) {
  const auto found = snapshot.config.find(key);
  return found == snapshot.config.end() ? "" : found->second;
}

std::vector<CollectiveRun> Slowest(std::vector<CollectiveRun> runs) {
  const size_t kept = std::min(kListed, runs.size());
  std::partial_sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(kept), runs.end(),
                    [](const CollectiveRun& a, const CollectiveRun& b) {
                      const int64_t a_ns = a.ended_ns - a.started_ns;
                      const int64_t b_ns = b.ended_ns - b.started_ns;
                      if (a_ns != b_ns) return a_ns > b_ns;
                      return std::pair(a.started_ns, a.rank) < std::pair(b.started_ns, b.rank);
                    });
  runs.resize(kept);
  return runs;
}

struct StepRange {
  int64_t first = 0;  // wide, because a damaged file may have steps at the ends of int32
  int64_t last = -1;
};

// Finished steps without warm-up (all of them if there are no more), the newest `detail_steps`.
StepRange DetailRange(const std::vector<StepBreakdown>& steps, int detail_steps) {
  if (steps.empty()) return {};
  StepRange range{steps.front().step, steps.back().step};
  if (range.last >= kWarmUpSteps) range.first = std::max<int64_t>(range.first, kWarmUpSteps);
  if (detail_steps > 0) range.first = std::max(range.first, range.last - detail_steps + 1);
  return range;
}

// Collectives and stalls of the finished steps in `range`, a few steps at a time.
void AddDetails(const query::Snapshot& snapshot, const StepRange& range, Report* report) {
  StallGroups groups;
  int num_rank_steps = 0;
  int64_t done = range.first - 1;  // the last step that was looked at
  for (const StepBreakdown& row : report->steps) {
    if (row.step < range.first || row.step > range.last) continue;
    ++num_rank_steps;
    if (row.step <= done) continue;
    done = std::min(row.step + kStepsAtATime - 1, range.last);
    const int last = static_cast<int>(done);
    std::vector<CollectiveRun> runs = Collectives(snapshot, row.step, last);
    const std::vector<Stall> stalls = Stalls(snapshot, row.step, last);
    groups.Add(stalls);
    if (report->every_stall) {
      report->every_stall->insert(report->every_stall->end(), stalls.begin(), stalls.end());
    }
    runs.insert(runs.end(), report->slowest_collectives.begin(), report->slowest_collectives.end());
    report->slowest_collectives = Slowest(std::move(runs));
  }
  report->stalls = groups.Sorted(num_rank_steps);
  if (report->stalls.size() > kListed) report->stalls.resize(kListed);
}

}  // namespace

std::vector<query::Marker> ErrorsOf(const query::Snapshot& snapshot) {
  std::vector<query::Marker> errors;
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.kind == "error") errors.push_back(marker);
  }
  std::stable_sort(
      errors.begin(), errors.end(),
      [](const query::Marker& a, const query::Marker& b) { return a.time_ns < b.time_ns; });
  return errors;
}

std::vector<std::string> UnfinishedOf(const query::Snapshot& snapshot) {
  std::vector<std::string> reasons;
  for (const query::Capability& capability : snapshot.capabilities) {
    if (capability.source == kFinisher) reasons.push_back(capability.reason);
  }
  return reasons;
}

Report MakeReport(const query::Snapshot& snapshot, const ReportOptions& options) {
  Report report;
  report.name = snapshot.name;
  report.run_folder = snapshot.run_folder;
  report.state = snapshot.state;
  report.truth = snapshot.truth;
  report.contended = snapshot.contended;
  report.steps = options.cache == nullptr ? Breakdowns(snapshot) : options.cache->Update(snapshot);
  report.summary = Summarize(report.steps);
  report.memory = MemoryPeaks(snapshot);
  report.schedules = MemoryOfSchedules(snapshot, report.memory);
  report.kernels = SummarizeKernels(snapshot);
  report.edges = CheckEdges(snapshot);

  if (options.every_stall) report.every_stall.emplace();
  AddDetails(snapshot, DetailRange(report.steps, options.detail_steps), &report);

  report.transport = ConfigValue(snapshot, "transport");
  if (report.transport == "emulated") {
    report.link_bandwidth = ConfigValue(snapshot, "link.bandwidth");
    for (const query::Marker& marker : snapshot.markers) {
      if (marker.key == "link.bandwidth") report.link_bandwidth = marker.new_value;
    }
  }
  report.markers = snapshot.markers;
  report.errors = ErrorsOf(snapshot);
  report.unfinished = UnfinishedOf(snapshot);
  report.clocks = snapshot.clocks;
  report.gpu_clocks = BoundGpuClocks(snapshot);
  report.overhead = MeasureOverhead(snapshot);
  report.sources = SourcesOf(snapshot);
  for (const query::Capability& capability : snapshot.capabilities) {
    if (capability.source == kFinisher) continue;
    report.dropped[capability.source] += capability.dropped;
    if (capability.dropped > 0) {
      report.losses[capability.source + ": " + capability.reason] += capability.dropped;
    }
  }
  return report;
}

}  // namespace shardscope::analysis
