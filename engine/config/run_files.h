// The names of what a run writes into its folder, and whether a folder has any of it.
#pragma once

#include <optional>
#include <string>

#include "trace/base/status.h"

namespace shardscope::config {

inline constexpr const char* kRunConfigFile = "run.toml";
inline constexpr const char* kSchedulesFolder = "schedules";
inline constexpr const char* kCheckpointsFolder = "checkpoints";
inline constexpr const char* kRunLogFile = "log.txt";
inline constexpr const char* kTracePrefix = "trace-";

struct TouchedFile {
  std::string name;     // in the folder
  bool is_run = false;  // there is a run in the folder; else a file of the user's has such a name
};

// What a run that starts in `folder` would write to; a run before anything else. None: nothing, as
// of a folder that is not there. An error: the folder cannot be read, or is a file.
Result<std::optional<TouchedFile>> WhatARunWouldTouch(const std::string& folder);

}  // namespace shardscope::config
