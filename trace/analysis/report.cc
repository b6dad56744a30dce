#include "trace/analysis/report.h"

#include <algorithm>

namespace shardscope::analysis {
namespace {

std::string ConfigValue(const query::Snapshot& snapshot, const std::string& key) {
  const auto found = snapshot.config.find(key);
  return found == snapshot.config.end() ? "" : found->second;
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
  const bool is_cached = options.cache != nullptr && snapshot.derived == nullptr;
  report.steps = is_cached ? options.cache->Update(snapshot) : Breakdowns(snapshot);
  report.figures =
      MakeFigures(snapshot, report.steps, options.scope.value_or(DefaultScope(snapshot.state)));
  if (!snapshot.ranks.empty()) {
    for (const query::Pause& pause : snapshot.ranks.front().pauses) {
      if (report.figures.scope.Contains(pause.step)) report.pauses.push_back(pause);
    }
  }
  report.memory = report.figures.scope.whole_run() ? report.figures.memory : MemoryPeaks(snapshot);
  report.schedules = MemoryOfSchedules(snapshot, report.memory);
  if (options.every_stall) {
    const ScopedSteps& scope = report.figures.scope;
    report.every_stall = Stalls(snapshot, scope.first_timed, scope.last);
  }
  report.kernels = SummarizeKernels(snapshot);
  report.edges = CheckEdges(snapshot);

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
