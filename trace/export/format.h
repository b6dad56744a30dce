// Format: what a run can be exported as. There is one entry for each in format.cc; a new one is a
// file and that entry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/run_files.h"

namespace shardscope::exports {

struct ExportOptions {
  std::string table;  // csv: only this table or view
};

struct Format {
  std::string_view key;     // perfetto
  std::string_view title;   // "Chrome JSON for Perfetto's viewer"
  std::string_view ending;  // of the file, ".json"; empty: a folder of files
  // Makes `to`, which is not there. An error leaves nothing of a file; of a folder its owner
  // removes it.
  Status (*write)(const store::RunFiles& run, const std::string& to, const ExportOptions& options);
};

const std::vector<Format>& Formats();

}  // namespace shardscope::exports
