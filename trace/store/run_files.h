// Finding the trace files of a run.
#pragma once

#include <string>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

struct RunFiles {
  std::string path;               // the folder, also if one of its files was named
  std::string name;               // its last component
  std::vector<TraceFile> traces;  // by name; at least one
  // Why the file of a killed run could not be finished, though the folder can be written to; empty:
  // it was, or there was nothing to finish.
  std::string unfinished;
};

// `path`: a run folder, or one trace file of any name (only that one is taken then). What a file is
// that is no trace, the error says (file_kind.h). A file whose writer died
// is finished first (state `cut`) if the folder can be written to; where that fails, and the live
// file can be read, it is taken as it is.
Result<RunFiles> FindRun(const std::string& path);

// The trace files in `folder` now, by name; none if it cannot be read.
std::vector<TraceFile> ListTraces(const std::string& folder);

}  // namespace shardscope::store
