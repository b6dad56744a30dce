// RunOnDisk: what a folder says about the run in it before anybody opens it. Reads names and locks
// only, changes nothing.
#pragma once

#include <filesystem>
#include <string>

namespace shardscope::query {

struct RunOnDisk {
  bool found = false;  // there is a run: its configuration, or a trace
  bool live = false;   // something writes one of its traces now; not so after a kill
  std::filesystem::file_time_type began;  // when its first file was last written
};

// `path`: a run folder, or one trace file.
RunOnDisk LookAtRun(const std::string& path);

}  // namespace shardscope::query
