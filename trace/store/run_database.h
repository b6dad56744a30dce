// A run as one read-only database, for queries in SQL.
#pragma once

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/run_files.h"

namespace shardscope::store {

// One file is queried in place, live or finished. Several files are copied into memory, with ids
// shifted as in row_io.h, so that views across ranks see the whole run. Nothing can be changed or
// attached.
Result<Database> OpenRunDatabase(const RunFiles& run);

}  // namespace shardscope::store
