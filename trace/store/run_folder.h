// Finding the trace files of a run.
#pragma once

#include <string>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

struct RunFolder {
  std::string path;               // the folder, also if one of its files was named
  std::string name;               // its last component
  std::vector<TraceFile> traces;  // by name; at least one
};

// `path`: a run folder, or one trace file (only that one is taken then). A file whose writer died
// is finished first (state `cut`) if the folder can be written to.
Result<RunFolder> FindRun(const std::string& path);

// The trace files in `folder` now, by name; none if it cannot be read.
std::vector<TraceFile> ListTraces(const std::string& folder);

}  // namespace shardscope::store
