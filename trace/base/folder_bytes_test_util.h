// For tests and benchmarks: how much a run takes on disk right now.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

namespace shardscope {

// Sum of the sizes of all files of a folder, while others may be making and removing them.
inline int64_t FolderBytes(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const auto size = std::filesystem::file_size(it->path(), gone);
    if (!gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace shardscope
