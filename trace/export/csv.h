// Tables and views as CSV (RFC 4180).
#pragma once

#include <string>

#include "trace/base/status.h"
#include "trace/export/format.h"
#include "trace/store/run_files.h"

namespace shardscope::exports {

// Without options.table a folder with a file for each view, else that table or view as a file.
// Real numbers have all their digits, what is NULL is empty.
Status WriteCsv(const store::RunFiles& run, const std::string& to, const ExportOptions& options);

}  // namespace shardscope::exports
