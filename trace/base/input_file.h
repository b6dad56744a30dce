// Reading small files whole: configurations, schedules, logs. A pipe may never say anything and a
// device never end, so only regular files are read, and only up to a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/base/status.h"

namespace shardscope {

// The bytes of the file. Errors name the path and the reason: not there, no right, a folder, a
// pipe or a device, larger than `max_bytes`.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes);

struct FileEnd {
  std::string bytes;
  int64_t offset = 0;  // of the first of them
};

// The last `max_bytes` of those that come after the first `offset`.
Result<FileEnd> ReadFileEnd(const std::string& path, int64_t offset, size_t max_bytes);

}  // namespace shardscope
