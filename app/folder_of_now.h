// Where a run is recorded that was given no folder.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <string_view>

namespace shardscope::app {

// runs/START20250131-235959, the local time. Of two in one second it is the same. Main thread.
inline std::string FolderOfNow(std::string_view start) {
  const std::time_t now = std::time(nullptr);
  // Not fmt::localtime(): LibTorch's fmt, which the trainer compiles with, has none.
  return fmt::format("runs/{}{:%Y%m%d-%H%M%S}", start, *std::localtime(&now));
}

}  // namespace shardscope::app
