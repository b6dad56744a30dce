// RecordedRun: what a run made by `shardscope record` holds: processes and spans. Such a run
// has no Schedule and no steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/analysis/report/report.h"
#include "trace/base/status.h"

namespace shardscope::app {

struct RecordedProcess {
  std::string pid;
  std::string host;
  std::string command;
  std::string state;                        // live, finished or cut
  std::vector<std::string> sources_on;      // that gave records
  std::vector<std::string> sources_spoken;  // that said anything, those included
  int64_t num_spans = 0;
  int64_t rank = 0;
  bool launcher = false;  // shardscope record itself
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
  std::vector<SpanGroup> spans;            // by total time, dearest first
  std::vector<std::string> unreadable;     // files that could not be read, and why
};

// Whether these rows of table meta are of such a run.
bool IsRecordedRun(const std::map<std::string, std::string>& meta);

// `run`: a run folder or one of its trace files. A file that cannot be read, as when its process is
// just creating it, is no error: it is in `unreadable`.
Result<RecordedRun> ReadRecordedRun(const std::string& run);
// The same without spans and their number, which takes the same time however many there are.
Result<RecordedRun> ReadRecordedProcesses(const std::string& run);

// The report of such a run, in place of the one of a training. `num_spans`: how many groups of
// spans to list; 0 = all.
std::string PrintRecordedText(const RecordedRun& run, const analysis::Report& report,
                              size_t num_spans);
// The report's JSON with a key `recorded` more.
std::string AddRecordedJson(const RecordedRun& run, const std::string& report_json);

}  // namespace shardscope::app
