// The cache of imported runs: what was imported once opens at once the next time.
//
// A folder under $XDG_CACHE_HOME/shardscope/imports (or ~/.cache) for each set of files, named by
// what the file system says of them: where they are, their length, and when they last changed in
// any way (st_ctim, which no program sets back). Beyond kCacheBytes the runs that were not opened
// for longest go.
#pragma once

#include <cstdint>
#include <string>

#include "trace/base/status.h"
#include "trace/import/import.h"

namespace shardscope::imports {

inline constexpr int64_t kCacheBytes = int64_t{20} << 30;

// Of how much a preview is made: so much of all files together, of so many at most.
inline constexpr int64_t kPreviewBytes = int64_t{64} << 20;
inline constexpr size_t kPreviewInputs = 32;

// The run folder of what `path` holds, imported unless it is there.
Result<ImportedRun> ImportCached(const std::string& path, const ImportOptions& options = {});

// Whether ImportCached() has it already.
bool IsCached(const std::string& path);

// A run of the beginnings of what `path` holds, imported within seconds; its folder is the caller's
// to remove.
Result<std::string> ImportPreview(const std::string& path, ImportOptions options = {});

// Whether `path` is no run, but can be imported.
bool NeedsImport(const std::string& path);

// Of a path that is a run, or nothing that can be imported: the path. Else as ImportCached().
Result<std::string> RunOf(const std::string& path, const ImportOptions& options = {});

}  // namespace shardscope::imports
