// A run as one HTML page that opens offline: verdict, picture, sortable tables.
#pragma once

#include <string>

#include "trace/base/status.h"
#include "trace/export/format.h"
#include "trace/store/run_files.h"

namespace shardscope::app {

// Everything that `report --json` has as lists is a table; the picture is that of `shot`, in both
// themes, where one can be drawn. Nothing is loaded from elsewhere.
Status WriteHtml(const store::RunFiles& run, const std::string& to,
                 const exports::ExportOptions& options);

}  // namespace shardscope::app
