// Report: all facts of a run in one struct, made by the same functions for `shardscope report`, the
// app and `shot --json`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/analysis/breakdown.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/memory.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Report {
  std::string name;
  std::string run_folder;
  query::TraceState state = query::TraceState::kLive;
  query::Truth truth = query::Truth::kMeasured;
  bool contended = false;
  std::vector<StepBreakdown> steps;
  Summary summary;
  std::vector<MemoryPeak> memory;
  std::vector<CollectiveRun> slowest_collectives;  // by duration, dearest first, at most 20
  std::vector<StallGroup> stalls;                  // dearest first, at most 20
  std::vector<query::Marker> markers;
  std::map<std::string, int64_t> dropped;  // source -> records
  int64_t predicted_peak_bytes = 0;        // of the newest schedule; 0 if unknown
};

Report MakeReport(const query::Snapshot& snapshot);

std::string PrintReportText(const Report& report);
std::string PrintReportJson(const Report& report);

}  // namespace shardscope::analysis
