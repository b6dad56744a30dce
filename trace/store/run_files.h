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

// `path`: a run folder, or one trace file of any name (only that one is taken then). The error for
// a file that is no trace names what it is (CheckFileKind). A file whose writer died is finished
// first (state `cut`) if the folder can be written to; where that fails, and the live file can be
// read, it is taken as it is.
Result<RunFiles> FindRun(const std::string& path);

// The trace files in `folder` now, by name; none if it cannot be read.
std::vector<TraceFile> ListTraces(const std::string& folder);

// An error that names what the regular file at `path` is, if that is known and it is no trace of
// Shardscope; else ok: whether it is whole and readable is the reader's question. Reads at most 64
// KiB, and of another program's SQLite file the names of its tables.
Status CheckFileKind(const std::string& path);

}  // namespace shardscope::store
