// One Chrome JSON file that Perfetto's viewer opens, with what it can show of a run.
#pragma once

#include <string>

#include "trace/base/status.h"
#include "trace/export/format.h"
#include "trace/store/run_files.h"

namespace shardscope::exports {

// A process for each rank, with its lanes as threads: ops, kernels, ranges, steps; arrows from the
// issue of a collective to where it ran, and between the ranks of one; memory by category, loss and
// tokens/s as counters; markers as instants.
Status WritePerfetto(const store::RunFiles& run, const std::string& to,
                     const ExportOptions& options);

}  // namespace shardscope::exports
