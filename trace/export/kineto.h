// torch.profiler's JSON, as HTA and other tools for PyTorch read it.
//
// Ops are kernels, called so that these tools see what communicates and what copies; their launches
// stand where the host issued them, steps are ProfilerStep ranges. Beside that each event has the
// row that it was made of ("shardscope op_run": [[...]], values in the order of docs/trace.md), and
// metadata events have the rows of the small tables: `shardscope import` of it gives the same run.
#pragma once

#include <string>

#include "trace/base/status.h"
#include "trace/export/format.h"
#include "trace/store/run_files.h"

namespace shardscope::exports {

// A folder with a file for each rank.
Status WriteKineto(const store::RunFiles& run, const std::string& to, const ExportOptions& options);

}  // namespace shardscope::exports
