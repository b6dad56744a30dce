#include "trace/analysis/report/report.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include "trace/analysis/append.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/row_index.h"
#include "trace/analysis/steps/breakdown_cache.h"
#include "trace/base/parallel.h"
#include "trace/base/trace_keys.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kListedStalls = 20;

// What the figures of steps are made from, range by range.
class DetailsMaker {
 public:
  explicit DetailsMaker(const query::Snapshot& snapshot) : snapshot_(snapshot), front_(snapshot) {}

  // What is made of some steps alone. Any number of threads at once.
  struct OfSteps {
    std::unique_ptr<StepRows> rows;  // null: derived rows take their place
    std::vector<Stall> stalls;
    std::vector<FrontPart> front_parts;
    std::vector<PathShare> path;
    std::vector<CollectiveRun> collectives;
  };
  OfSteps Make(int first_step, int last_step) const {
    OfSteps made;
    if (snapshot_.derived) {
      made.stalls = Stalls(snapshot_, first_step, last_step);
      made.front_parts = FrontParts(snapshot_, first_step, last_step);
      made.path = PathShares(snapshot_, first_step, last_step);
      made.collectives = DerivedCollectives(snapshot_, first_step, last_step);
    } else {
      made.rows = std::make_unique<StepRows>(snapshot_, first_step, last_step);
      made.stalls = Stalls(*made.rows);
      made.path = PathShares(*made.rows);
    }
    return made;
  }

  // In the order of the steps.
  void Add(OfSteps made) {
    stalls_.Add(made.stalls);
    Append(std::move(made.front_parts), &front_parts_);
    Append(std::move(made.path), &path_);
    if (made.rows != nullptr) {
      front_.Add(*made.rows);
      made.collectives = std::move(made.rows->collectives);
    }
    std::vector<CollectiveRun> runs = std::move(made.collectives);
    runs.insert(runs.end(), slowest_.begin(), slowest_.end());
    slowest_ = Slowest(std::move(runs));
  }

  std::vector<CollectiveRun> TakeSlowest() { return std::move(slowest_); }
  Grounds TakeGrounds(int num_rank_steps) {
    if (!snapshot_.derived) front_parts_ = front_.TakeParts();
    return {stalls_.Sorted(num_rank_steps), std::move(front_parts_), std::move(path_)};
  }

 private:
  const query::Snapshot& snapshot_;
  StallGroups stalls_;
  FrontMaker front_;  // of op runs
  std::vector<FrontPart> front_parts_;
  std::vector<PathShare> path_;
  std::vector<CollectiveRun> slowest_;
};

// Rows of a range may take a hundred megabytes.
constexpr size_t kMostRangesAtOnce = 8;

// Of the steps whose times count, a few at a time on some cores; on one beside a training.
void AddDetails(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                Figures* figures) {
  const ScopedSteps& scope = figures->scope;
  DetailsMaker details(snapshot);
  const std::vector<std::pair<int, int>> ranges =
      StepRanges(snapshot, scope.first_timed, scope.last);
  const size_t at_once =
      query::MayGrow(snapshot.state) ? 1 : std::min(NumCores(), kMostRangesAtOnce);
  for (size_t from = 0; from < ranges.size(); from += at_once) {
    std::vector<DetailsMaker::OfSteps> made(std::min(at_once, ranges.size() - from));
    ForEachIndex(made.size(), [&](size_t index) {
      made[index] = details.Make(ranges[from + index].first, ranges[from + index].second);
    });
    for (DetailsMaker::OfSteps& one : made) details.Add(std::move(one));
  }
  figures->slowest_collectives = details.TakeSlowest();
  const auto num_rank_steps = std::ranges::count_if(steps, [&scope](const StepBreakdown& row) {
    return row.step >= scope.first_timed && row.step <= scope.last;
  });
  Grounds grounds = details.TakeGrounds(static_cast<int>(num_rank_steps));
  figures->stalls = grounds.stalls;
  figures->explanation =
      Explain(snapshot, steps, std::move(grounds), figures->scope.first_timed, figures->scope.last);
  if (figures->stalls.size() > kListedStalls) figures->stalls.resize(kListedStalls);
}

std::string ConfigValue(const query::Snapshot& snapshot, const std::string& key) {
  const auto found = snapshot.config.find(key);
  return found == snapshot.config.end() ? "" : found->second;
}

void AddPausesAndEvaluations(const query::RankRows& rows, Report* report) {
  const ScopedSteps& scope = report->figures.scope;
  for (const query::Pause& pause : rows.pauses) {
    if (scope.Contains(pause.step)) report->pauses.push_back(pause);
  }
  // The last one is behind the last step.
  for (const query::Evaluation& evaluation : rows.evaluations) {
    const bool is_in = scope.Contains(evaluation.step) || scope.Contains(evaluation.step - 1);
    if (is_in) report->evaluations.push_back(evaluation);
  }
}

void AddCheckpoints(const query::Snapshot& snapshot, Report* report) {
  const ScopedSteps& scope = report->figures.scope;
  for (CheckpointFigures& one : CheckpointsOf(snapshot)) {
    // The last one is taken when there is no step after it.
    if (!scope.whole_run() && !scope.Contains(one.step)) continue;
    report->checkpoints.push_back(std::move(one));
  }
}

// With what each sends; of the evaluations in the report theirs, too.
void AddSchedules(const query::Snapshot& snapshot, Report* report) {
  std::map<query::ScheduleId, RankTraffic> traffic = TrafficOf(snapshot);
  for (ScheduleMemory& memory : MemoryOfSchedules(snapshot, report->memory)) {
    report->schedules.push_back({memory, std::move(traffic[memory.id])});
  }
  std::set<query::ScheduleId> evaluated;
  for (const query::Evaluation& evaluation : report->evaluations) {
    const auto schedule = snapshot.schedules.find(evaluation.schedule);
    const bool is_new = evaluated.insert(evaluation.schedule).second;
    if (!is_new || schedule == snapshot.schedules.end()) continue;
    report->evaluation_schedules.push_back(
        {schedule->second.name, std::move(traffic[evaluation.schedule])});
  }
}

// What is made only where it is asked for.
void AddWanted(const query::Snapshot& snapshot, const ReportOptions& options, Report* report) {
  const ScopedSteps& scope = report->figures.scope;
  if (options.every_stall) {
    report->every_stall = Stalls(snapshot, scope.first_timed, scope.last);
  }
  if (options.collectives) {
    report->collectives = MakeCollectiveTable(snapshot, scope);
    for (const CollectiveRun& run : report->figures.slowest_collectives) {
      report->arrivals.push_back(ArrivalsOf(snapshot, run));
    }
  }
  if (options.step_table) {
    std::vector<StepRow> rows = MakeStepTable(report->steps, snapshot.markers);
    std::erase_if(rows, [&](const StepRow& row) { return !scope.Contains(row.step); });
    report->step_table = std::move(rows);
  }
}

// After the last change of the key.
std::string NewestValue(const query::Snapshot& snapshot, const std::string& key) {
  std::string value = ConfigValue(snapshot, key);
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.key == key) value = marker.new_value;
  }
  return value;
}

void AddLink(const query::Snapshot& snapshot, Report* report) {
  report->link.transport = ConfigValue(snapshot, "transport");
  if (report->link.transport != "emulated") return;
  report->link.bandwidth = NewestValue(snapshot, "link.bandwidth");
  for (int at = 0; at < words::kNumMeshDimensions; ++at) {
    const std::string dimension(Name(static_cast<words::MeshDimension>(at)));
    const std::string rate = NewestValue(snapshot, "link." + dimension + ".bandwidth");
    if (!rate.empty()) report->link.bandwidth += ", " + dimension + " " + rate;
  }
}

void AddLosses(const query::Snapshot& snapshot, Report* report) {
  for (const query::Capability& capability : snapshot.capabilities) {
    if (capability.source == trace_keys::kFinisher) continue;
    report->dropped[capability.source] += capability.dropped;
    if (capability.dropped > 0) {
      report->losses[capability.source + ": " + capability.reason] += capability.dropped;
    }
  }
}

}  // namespace

Figures MakeFigures(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                    const Scope& scope) {
  Figures figures;
  figures.scope = Resolve(scope, steps, snapshot.markers);
  if (figures.scope.whole_run()) {
    figures.memory = MemoryPeaks(snapshot);
  } else if (!figures.scope.empty()) {
    figures.memory = MemoryPeaksOfSteps(snapshot, figures.scope.first, figures.scope.last);
  }
  figures.summary = SummarizeRange(steps, figures.scope.first, figures.scope.last);
  if (!figures.scope.empty()) AddDetails(snapshot, steps, &figures);
  return figures;
}

std::vector<query::Marker> ErrorsOf(const query::Snapshot& snapshot) {
  std::vector<query::Marker> errors;
  for (const query::Marker& marker : snapshot.markers) {
    if (marker.kind == Name(query::MarkerKind::kError)) errors.push_back(marker);
  }
  std::stable_sort(
      errors.begin(), errors.end(),
      [](const query::Marker& a, const query::Marker& b) { return a.time_ns < b.time_ns; });
  return errors;
}

std::vector<std::string> UnfinishedOf(const query::Snapshot& snapshot) {
  std::vector<std::string> reasons;
  for (const query::Capability& capability : snapshot.capabilities) {
    if (capability.source == trace_keys::kFinisher) reasons.push_back(capability.reason);
  }
  return reasons;
}

std::string_view StateWord(const Report& report) {
  if (report.state != query::TraceState::kFinished) return Name(report.state);
  if (!report.errors.empty() || report.hang.is_hang) return "failed";
  return Name(report.cut_files.empty() ? query::TraceState::kFinished : query::TraceState::kCut);
}

std::vector<query::Marker> SkipsInScope(const Report& report) {
  std::vector<query::Marker> skips;
  for (const query::Marker& marker : report.markers) {
    if (marker.kind == Name(query::MarkerKind::kSkip) && report.figures.scope.Contains(marker.step))
      skips.push_back(marker);
  }
  return skips;
}

Report MakeReport(const query::Snapshot& snapshot, const ReportOptions& options) {
  Report report;
  report.name = snapshot.name;
  report.run_folder = snapshot.run_folder;
  report.state = snapshot.state;
  report.truth = snapshot.truth;
  report.imported = snapshot.IsImported();
  report.contended = snapshot.contended;
  const bool is_cached = options.cache != nullptr && snapshot.derived == nullptr;
  report.steps = is_cached ? options.cache->Update(snapshot) : Breakdowns(snapshot);
  report.figures =
      MakeFigures(snapshot, report.steps, options.scope.value_or(DefaultScope(snapshot.state)));
  if (!snapshot.ranks.empty()) AddPausesAndEvaluations(snapshot.ranks.front(), &report);
  AddCheckpoints(snapshot, &report);
  report.setup =
      SetupAt(snapshot, report.figures.scope.empty() ? INT32_MAX : report.figures.scope.last);
  report.resumed = ResumedFromOf(snapshot);
  report.trained = TrainedOf(snapshot);
  report.memory = report.figures.scope.whole_run() ? report.figures.memory : MemoryPeaks(snapshot);
  AddSchedules(snapshot, &report);
  for (const query::RankRows& rows : snapshot.ranks) {
    if (!rows.segments.empty()) report.nccl_segments[rows.rank] = SegmentsOfNccl(snapshot, rows);
  }
  AddWanted(snapshot, options, &report);
  report.kernels = SummarizeKernels(snapshot);
  report.edges = CheckEdges(snapshot);
  AddLink(snapshot, &report);
  report.markers = snapshot.markers;
  report.errors = ErrorsOf(snapshot);
  report.unfinished = UnfinishedOf(snapshot);
  report.clocks = snapshot.clocks;
  report.gpu_clocks = BoundGpuClocks(snapshot);
  report.overhead = MeasureOverhead(snapshot);
  report.sources = SourcesOf(snapshot);
  report.cut_files = CutFilesOf(snapshot);
  report.hang = FindHang(snapshot);
  AddLosses(snapshot, &report);
  return report;
}

}  // namespace shardscope::analysis
