#include "ui/shell/run/report_worker.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stop_token>
#include <utility>

#include "trace/analysis/changes.h"
#include "trace/analysis/memory/memory.h"
#include "trace/query/step_times.h"

namespace shardscope::shell {
namespace {

constexpr auto kMinimumInterval = std::chrono::milliseconds(100);

// Largest live bytes of any rank while it ran the steps [first, last].
int64_t PeakBytes(const query::Snapshot& snapshot, int32_t first, int32_t last) {
  return analysis::LargestPeakBytes(analysis::MemoryPeaksOfSteps(snapshot, first, last));
}

}  // namespace

std::shared_ptr<Findings> FindingsMaker::MakeReported(const FindingsRequest& request) {
  const query::Snapshot& snapshot = *request.snapshot;
  if (request.snapshot == made_of_.snapshot) {
    auto findings = std::make_shared<Findings>(*findings_);
    if (request.scope == made_of_.scope) return findings;
    findings->figures = std::make_shared<analysis::Figures>(
        analysis::MakeFigures(snapshot, findings->report->steps, request.scope));
    findings->ranks = nullptr;
    findings->collectives = nullptr;
    return findings;
  }
  const bool grows = query::MayGrow(snapshot.state);
  const bool replaced =
      made_of_.snapshot == nullptr || snapshot.generation < made_of_.snapshot->generation;
  if (!grows || replaced) cache_ = {};
  if (!grows || replaced) {
    grid_ = nullptr;
    grid_of_ = nullptr;
  }
  auto findings = std::make_shared<Findings>();
  auto report = std::make_shared<analysis::Report>(
      analysis::MakeReport(snapshot, {.scope = request.scope, .cache = grows ? &cache_ : nullptr}));
  findings->figures = std::shared_ptr<const analysis::Figures>(report, &report->figures);
  findings->change = SummarizeChange(snapshot, report->steps);
  findings->report = std::move(report);
  findings->generation = snapshot.generation;
  return findings;
}

void FindingsMaker::AddRanks(const FindingsRequest& request, Findings* findings) {
  if (grid_of_ != request.snapshot || grid_ == nullptr) {
    grid_ = std::make_shared<analysis::RankGrid>(
        analysis::MakeRankGrid(*request.snapshot, findings->report->steps, grid_.get()));
    grid_of_ = request.snapshot;
  }
  findings->ranks = std::make_shared<analysis::RankOverview>(analysis::MakeRankOverview(
      *request.snapshot, grid_, findings->figures->scope, findings->figures->explanation.front));
}

FindingsPtr FindingsMaker::Make(FindingsRequest request) {
  std::shared_ptr<Findings> findings = MakeReported(request);
  const bool is_whole = !request.snapshot->loading && !request.snapshot->summed_op_runs;
  if (is_whole && request.ranks && findings->ranks == nullptr) {
    AddRanks(request, findings.get());
  }
  if (is_whole && request.collectives && findings->collectives == nullptr) {
    findings->collectives = std::make_shared<analysis::CollectiveTable>(
        analysis::MakeCollectiveTable(*request.snapshot, findings->figures->scope));
  }
  if (request.step_table && findings->step_table == nullptr) {
    findings->step_table = std::make_shared<std::vector<analysis::StepRow>>(
        analysis::MakeStepTable(findings->report->steps, findings->report->markers));
  }
  made_of_ = std::move(request);
  return findings_ = std::move(findings);
}

// Reports of a run that goes on leave half of a core to its training.
ReportWorker::ReportWorker(std::function<void()> wake)
    : NewestWorker(
          [maker = std::make_shared<FindingsMaker>()](const FindingsRequest& request,
                                                      const std::stop_token&) {
            return maker->Make(request);
          },
          std::move(wake), kMinimumInterval,
          [](const FindingsRequest& request) { return query::MayGrow(request.snapshot->state); }) {}

ui::ChangeSummary SummarizeChange(const query::Snapshot& snapshot,
                                  const std::vector<analysis::StepBreakdown>& steps) {
  ui::ChangeSummary change;
  std::vector<analysis::ChangeEffect> effects = analysis::EffectsOfChanges(steps, snapshot.markers);
  if (effects.empty()) return change;
  analysis::ChangeEffect& newest = effects.back();
  change.valid = true;
  change.step = newest.step;
  change.markers = std::move(newest.markers);
  const auto times = query::TimesOfSteps(snapshot, newest.step, newest.step);
  change.time_ns = times ? times->start_ns : change.markers.front().time_ns;
  change.complete = newest.complete();
  change.may_complete = newest.may_complete;
  change.before = newest.before;
  change.after = newest.after;
  change.step_verdict = newest.step_verdict();
  change.exposed_verdict = newest.exposed_verdict();
  change.token_verdict = newest.token_verdict();
  if (newest.has_both()) {
    change.peak_before_bytes = PeakBytes(snapshot, newest.first, newest.step - 1);
    change.peak_after_bytes = PeakBytes(snapshot, newest.step, newest.end - 1);
  }
  return change;
}

}  // namespace shardscope::shell
