// limit: one field a part of the report
// Report: all facts of a run in one struct, made by the same functions for `shardscope report`, the
// app and `shot --json`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/checkpoints.h"
#include "trace/analysis/collectives/arrivals.h"
#include "trace/analysis/collectives/collective_table.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/collectives/hang.h"
#include "trace/analysis/collectives/traffic.h"
#include "trace/analysis/config_at.h"
#include "trace/analysis/explain/explanation.h"
#include "trace/analysis/gpu/edge_check.h"
#include "trace/analysis/gpu/gpu_time.h"
#include "trace/analysis/gpu/kernels.h"
#include "trace/analysis/gpu/recording.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/scope.h"
#include "trace/analysis/sources.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/analysis/steps/step_table.h"
#include "trace/analysis/trained.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

class BreakdownCache;

// What is counted, added up or compared over steps; all of one Scope, so that they agree
// with one another.
struct Figures {
  ScopedSteps scope;
  Summary summary;
  std::vector<MemoryPeak> memory;  // of each rank, warm-up included; empty without a step
  std::vector<CollectiveRun> slowest_collectives;  // by duration, dearest first, at most 20
  std::vector<StallGroup> stalls;                  // dearest first, at most 20
  Explanation explanation;
};

// `steps`: all of the snapshot, as Breakdowns() gives them.
Figures MakeFigures(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                    const Scope& scope);

// What a Schedule took, beside what it was predicted to take, and what a rank sends in its step.
struct ScheduleFigures {
  ScheduleMemory memory;
  RankTraffic traffic;
};

// What a rank sends in a batch of evaluations of a Schedule.
struct EvaluationFigures {
  std::string name;
  RankTraffic traffic;
};

// What collectives went over, as the run's configuration says; texts may be empty.
struct ReportedLink {
  std::string transport;
  std::string bandwidth;  // of an emulated link, in force last
};

struct Report {
  std::string name;
  std::string run_folder;
  query::TraceState state = query::TraceState::kLive;
  query::Truth truth = query::Truth::kMeasured;
  bool contended = false;
  bool imported = false;                                // another program's trace
  Setup setup;                                          // at the last step of `figures`
  std::vector<StepBreakdown> steps;                     // of the whole run
  std::vector<MemoryPeak> memory;                       // of the whole run
  std::map<int32_t, std::vector<bool>> nccl_segments;   // by rank: SegmentsOfNccl()
  std::vector<ScheduleFigures> schedules;               // that ran
  Figures figures;                                      // of the scope that was asked for
  std::vector<query::Pause> pauses;                     // before its steps, of the first rank
  std::vector<query::Evaluation> evaluations;           // the same
  std::vector<EvaluationFigures> evaluation_schedules;  // of these
  std::vector<CheckpointFigures> checkpoints;           // before or after its steps
  std::optional<ResumedFrom> resumed;
  std::optional<Trained> trained;
  std::optional<std::vector<Stall>> every_stall;  // of that scope, if asked for
  std::optional<CollectiveTable> collectives;     // likewise
  // With them, of each of the slowest: who came when.
  std::vector<std::vector<Arrival>> arrivals;
  std::optional<std::vector<StepRow>> step_table;  // likewise, of its steps
  ReportedLink link;
  KernelSummary kernels;  // num_ranks 0: no row of a GPU
  EdgeCheck edges;        // waits between streams of a GPU
  std::vector<query::Marker> markers;
  std::vector<query::Marker> errors;    // of ErrorsOf()
  std::vector<std::string> unfinished;  // of UnfinishedOf()
  std::vector<std::string> cut_files;   // of CutFilesOf()
  std::vector<query::Clock> clocks;  // of a run of several files, the common one first; else none
  std::map<std::string, int64_t> dropped;  // source -> records
  std::map<std::string, int64_t> losses;   // "source: reason" -> records, where any were lost
  std::vector<SourceState> sources;        // what each could do and why not more, and where
  std::vector<GpuClockBounds> gpu_clocks;  // within what the times of GPUs are right
  Overhead overhead;                       // what recording costs, if the run measured it
  Hang hang;                               // of flight recorders' dumps, if there are any
};

struct ReportOptions {
  std::optional<Scope> scope;       // of the figures; none: DefaultScope()
  bool every_stall = false;         // list them, too
  bool collectives = false;         // add them up, too: of a snapshot with all rows
  bool step_table = false;          // a row a step over all ranks, too
  BreakdownCache* cache = nullptr;  // of this run, if there is one; borrowed
};

// The markers with the reason why the run failed, oldest first.
std::vector<query::Marker> ErrorsOf(const query::Snapshot& snapshot);
// Why files of killed processes could not be finished; none if they were.
std::vector<std::string> UnfinishedOf(const query::Snapshot& snapshot);

// "failed" where the trace is whole and the run that it is of is not: it ended by an error, or
// hangs. Else as the trace is, but "cut" where a file that it was imported from is. As
// ui::StateWord().
std::string_view StateWord(const Report& report);

// The markers of the scope's steps whose update the gradient scaler left out, oldest first.
std::vector<query::Marker> SkipsInScope(const Report& report);

Report MakeReport(const query::Snapshot& snapshot, const ReportOptions& options = {});

// Both list the steps and changes of the scope. `num_steps`: only the newest so many steps; 0 =
// all.
std::string PrintReportText(const Report& report, int num_steps = 10);
// `gpu`: with the times of the GPU by one definition; null, or one without ranks: none.
std::string PrintReportJson(const Report& report, const GpuTime* gpu = nullptr);
// The last part of the text: what was lost.
std::string PrintDropped(const Report& report);

}  // namespace shardscope::analysis
