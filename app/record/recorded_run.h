// RecordedRun: what a run made by `shardscope record` holds: processes, sources, spans. Such a run
// has no Schedule and no steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/analysis/report.h"
#include "trace/base/status.h"

namespace shardscope::app {

struct RecordedProcess {
  std::string pid;
  std::string host;
  std::string command;
  std::string state;  // live, finished or cut
  int64_t num_spans = 0;
  int64_t rank = 0;
  bool launcher = false;  // shardscope record itself
};

// What the processes say of one source, in the order of `status`.
struct RecordedSource {
  std::string source;
  std::string status;
  std::string reason;
  int64_t processes = 0;
};

struct SpanGroup {
  std::string name;
  std::string category;
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t longest_ns = 0;
};

struct RecordedRun {
  std::vector<RecordedProcess> processes;  // the launcher first
  std::vector<RecordedSource> sources;
  std::vector<SpanGroup> spans;  // by total time, dearest first
};

// Whether these rows of table meta are of such a run.
bool IsRecordedRun(const std::map<std::string, std::string>& meta);

// `run`: a run folder or one of its trace files. Files that are not readable yet, because their
// process is just creating them, are left out.
Result<RecordedRun> ReadRecordedRun(const std::string& run);

// The report of such a run, in place of the one of a training. `num_spans`: how many groups of
// spans to list; 0 = all.
std::string PrintRecordedText(const RecordedRun& run, const analysis::Report& report,
                              size_t num_spans);
// The report's JSON with a key `recorded` more.
std::string AddRecordedJson(const RecordedRun& run, const std::string& report_json);

}  // namespace shardscope::app
