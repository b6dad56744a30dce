// Importing: traces of other programs become a run of ours, a file a rank.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::imports {

struct ImportOptions {
  // Called on one of the reading threads with how much of all files is done; false: stop.
  std::function<bool(int64_t done_bytes, int64_t all_bytes)> progress;
  int num_threads = 2;
  // A preview: of the first `most_inputs` files, where that is of use, the first bytes
  // (decompressed). 0: all.
  int64_t bytes_of_each = 0;
  size_t most_inputs = 0;
};

struct ImportedRun {
  std::string folder;
  std::string format;  // key of the formats that were found
  int num_ranks = 0;
  std::vector<std::string> passed_over;  // files that no importer takes
};

// A run is made in a folder beside it, RUN.importing-PID, and renamed when it is whole.
inline constexpr std::string_view kTemporarySuffix = ".importing-";

// Whether something at `path` can be imported, by its first bytes.
bool CanImport(const std::string& path);

// Whether its files are large enough for a preview to come much sooner than all of it.
bool IsWorthAPreview(const std::string& path);

// Makes the run folder `to`, which must not exist, of the file or folder `path`. Nothing is left of
// it after an error, or when `progress` said to stop (kCancelled).
Result<ImportedRun> ImportRun(const std::string& path, const std::string& to,
                              const ImportOptions& options = {});

}  // namespace shardscope::imports
