#include "engine/config/run_files.h"

#include <filesystem>
#include <system_error>

namespace shardscope::config {

namespace fs = std::filesystem;

Result<std::optional<TouchedFile>> WhatARunWouldTouch(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) && !error) return std::optional<TouchedFile>();
  std::optional<TouchedFile> touched;
  // Not a range: its step would throw.
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == kRunConfigFile || name.starts_with(kTracePrefix)) {
      return std::optional(TouchedFile{name, true});
    }
    if (name == kSchedulesFolder || name == kCheckpointsFolder || name == kRunLogFile) {
      touched = TouchedFile{name, false};
    }
  }
  if (error) return Status::Error(folder + ": " + error.message());
  return touched;
}

}  // namespace shardscope::config
