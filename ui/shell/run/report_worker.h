// ReportWorker: makes the Report of the newest Snapshot, with figures of the scope asked for, on a
// thread of its own, at most ten times a second, so that no frame waits for it.
//
// Threads: as NewestWorker; the report is made on the worker's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trace/analysis/collectives/collective_table.h"
#include "trace/analysis/ranks/rank_findings.h"
#include "trace/analysis/report/report.h"
#include "trace/analysis/steps/breakdown_cache.h"
#include "trace/analysis/steps/step_table.h"
#include "ui/context.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

// What is asked for.
struct FindingsRequest {
  query::SnapshotPtr snapshot;
  analysis::Scope scope;
  // What only a panel in front needs.
  bool ranks = false;
  bool collectives = false;
  bool step_table = false;
  // All ask the same: what is in the making is shown although other figures are asked for
  // meanwhile, as while a scope is dragged.
  bool Asks(const FindingsRequest&) const { return true; }
  bool operator==(const FindingsRequest&) const = default;
};

struct Findings {
  std::shared_ptr<const analysis::Report> report;
  std::shared_ptr<const analysis::Figures> figures;  // of the scope asked for last
  ui::ChangeSummary change;
  // Of that scope, too; null: not asked for, or of a snapshot that lacks rows.
  std::shared_ptr<const analysis::RankOverview> ranks;
  std::shared_ptr<const analysis::CollectiveTable> collectives;
  std::shared_ptr<const std::vector<analysis::StepRow>> step_table;  // null: not asked for
  uint64_t generation = 0;                                           // of the snapshot
};
using FindingsPtr = std::shared_ptr<const Findings>;

// Makes findings on the calling thread: for headless pictures, and inside the worker. What it made
// last it does not make again: another scope of the same Snapshot costs its figures, a newer
// Snapshot of a run that goes on its new rows and its figures.
class FindingsMaker {
 public:
  FindingsPtr Make(FindingsRequest request);

 private:
  std::shared_ptr<Findings> MakeReported(const FindingsRequest& request);
  void AddRanks(const FindingsRequest& request, Findings* findings);

  FindingsRequest made_of_;
  std::shared_ptr<const Findings> findings_;
  query::SnapshotPtr grid_of_;
  std::shared_ptr<const analysis::RankGrid> grid_;
  analysis::BreakdownCache cache_;  // of a run that goes on
};

class ReportWorker : public NewestWorker<FindingsRequest, Findings> {
 public:
  // `wake` is called on the worker's thread after new findings.
  explicit ReportWorker(std::function<void()> wake);
};

// The effect of the newest change of a knob, as analysis::EffectsOfChanges() has it, and on memory.
ui::ChangeSummary SummarizeChange(const query::Snapshot& snapshot,
                                  const std::vector<analysis::StepBreakdown>& steps);

}  // namespace shardscope::shell
